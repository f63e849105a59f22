"""Labels, and the requirements that select objects by them."""

import msgspec

Labels = tuple[tuple[str, str], ...]
"""Labels of an object, sorted by name."""


class Requirement(msgspec.Struct, frozen=True, array_like=True):
    """One expression of a selector; ``field`` is true for ``matchFields`` of nodes (only ``metadata.name`` exists)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False
