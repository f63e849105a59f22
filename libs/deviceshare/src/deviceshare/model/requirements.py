"""Labels, and the requirements that select objects by them; taints and tolerations."""

import re
from collections.abc import Sequence

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


_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)


def integer(text: str) -> int | None:
    """Return the number in a label; None if it is not a 64-bit integer in Go's form (``strconv.ParseInt``)."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def meets(operator: str, values: Sequence[str], value: str | None) -> bool:
    """Return whether the value of a label meets a requirement; None: there is no such label.

    A bad number, on either side, and an unknown operator are met by none.

    Source: Kubernetes k8s.io/apimachinery/pkg/labels (Requirement.Matches), to which component-helpers' nodeaffinity
    and the selectors of pods both come down.
    """
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(values) == 1:
            has, bound = integer(value), integer(values[0])
            return has is not None and bound is not None and (has > bound if operator == "Gt" else has < bound)
    return False


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
