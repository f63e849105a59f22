"""Labels, and the requirements that select objects by them; taints and tolerations."""

import msgspec

from deviceshare.model.bounded import Amount

Labels = tuple[tuple[str, str], ...]
"""Labels of an object, sorted by name."""


class Requirement(msgspec.Struct, frozen=True, array_like=True):
    """One expression of a selector; ``field`` is true for ``matchFields`` of nodes (only ``metadata.name`` exists)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


class Taint(msgspec.Struct, frozen=True, array_like=True):
    """A taint of a node; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Toleration(msgspec.Struct, frozen=True, array_like=True):
    """A toleration of a pod; an empty key with ``Exists`` matches all taints, an empty effect matches all effects."""

    key: str
    operator: str
    value: str
    effect: str


class Preference(msgspec.Struct, frozen=True, array_like=True):
    """A term of a preferred node affinity: adds ``weight`` (1 to 100) to nodes that meet all its requirements."""

    weight: Amount
    requirements: tuple[Requirement, ...]
