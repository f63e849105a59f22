"""Fields of an object by their path, as options name them: ``.metadata.name``, ``.node``."""

import re
from collections.abc import Sequence
from typing import Any

from deviceshare_cli.errors import CommandError

Path = Sequence[str | int]
MISSING = object()
"""The value of a field that an object does not have."""
_STEP = re.compile(r"\.?([^.\[\]'\\]+(?:\\\.[^.\[\]'\\]+)*)|\['([^']*)'\]|\[(\d+)\]")


def parse_path(text: str, option: str) -> Path:
    """Return the steps of ``name``, ``.metadata.name`` or ``{.metadata.name}``; raise CommandError.

    Dots in keys are escaped with a backslash, as in ``kubectl``. ``option`` is named by the error.
    """
    path = text.strip().removeprefix("{").removesuffix("}")
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            break
        key, quoted, index = found.groups()
        steps.append(int(index) if index is not None else (key.replace("\\.", ".") if key is not None else quoted))
        position = found.end()
    if position < len(path) or not steps:
        raise CommandError(f"{option} {text!r} is not valid: expected a path such as .metadata.name")
    return tuple(steps)


def value_at(value: Any, path: Path) -> Any:
    """Return the value at a path within builtins, :data:`MISSING` if there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return MISSING
    return value
