"""``--sort-by``: a field of the JSON API or of the Kubernetes object."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from deviceshare_cli.errors import CommandError

T = TypeVar("T")
_STEP = re.compile(r"\.?([^.\[\]'\\]+(?:\\\.[^.\[\]'\\]+)*)|\['([^']*)'\]|\[(\d+)\]")


def sort_by(items: Sequence[T], fields: Sequence[Any], path: str) -> list[T]:
    """Return items in the order of a field; ``fields`` are the items as builtins. Items without the field come first.

    ``path``: ``name``, ``.metadata.name`` or ``{.metadata.name}``, as in ``kubectl``; dots in keys are escaped with a
    backslash. Raises CommandError if no item has the field.
    """
    steps = _parse(path)
    values = [_value(one, steps) for one in fields]
    if items and all(value is None for value in values):
        raise CommandError(f'couldn\'t find any field with path "{path}" in the list of objects')
    order = sorted(range(len(items)), key=lambda at: _key(values[at]))
    return [items[at] for at in order]


def _parse(path: str) -> tuple[str | int, ...]:
    text = path.strip().removeprefix("{").removesuffix("}")
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            break
        key, quoted, index = found.groups()
        steps.append(int(index) if index is not None else (key.replace("\\.", ".") if key is not None else quoted))
        position = found.end()
    if position < len(text) or not steps:
        raise CommandError(f"--sort-by {path!r} is not valid: expected a path such as .metadata.name")
    return tuple(steps)


def _value(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _key(value: Any) -> tuple[int, float, str]:
    """Return a key that orders numbers before texts, and missing values first."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, bool | int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)
