"""``--sort-by``: a field of the JSON API or of the Kubernetes object."""

from collections.abc import Sequence
from typing import Any, TypeVar

from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.fields import MISSING, parse_path, value_at

T = TypeVar("T")


def sort_by(items: Sequence[T], fields: Sequence[Any], path: str) -> list[T]:
    """Return items in the order of a field; ``fields`` are the items as builtins. Items without the field come first.

    ``path``: ``name``, ``.metadata.name`` or ``{.metadata.name}``, as in ``kubectl``; dots in keys are escaped with a
    backslash. Raises CommandError if no item has the field.
    """
    steps = parse_path(path, "--sort-by")
    values = [value_at(one, steps) for one in fields]
    if items and all(value is MISSING for value in values):
        raise CommandError(f'couldn\'t find any field with path "{path}" in the list of objects')
    order = sorted(range(len(items)), key=lambda at: _key(values[at]))
    return [items[at] for at in order]


def _key(value: Any) -> tuple[int, float, str]:
    """Return a key that orders numbers before texts, and missing values first."""
    if value is None or value is MISSING:
        return 0, 0.0, ""
    if isinstance(value, bool | int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)
