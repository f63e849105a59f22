"""Where a value of a wrong type is in an object, from the messages of msgspec."""

import re

import msgspec

from deviceshare.model.fields import Field

Path = list[str | int]
SOME_ENTRY = "..."
"""The key of a mapping in the messages of msgspec, which do not name it."""

_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def location(error: msgspec.ValidationError) -> tuple[Path, str]:
    """Return the path of the invalid value, and the expected type."""
    match = _MESSAGE.fullmatch(str(error))
    assert match is not None
    path: Path = [
        name or (index if index == SOME_ENTRY else int(index)) for name, index in _STEP.findall(match["path"] or "")
    ]
    expected, _, found = match["what"].removeprefix("Expected ").replace("`", "").partition(", got ")
    expected = expected.replace(" | null", "").replace(" | ", " or ")
    return path, f"{expected}, not {found}" if found else expected


def follow(field: Field, path: Path) -> Field:
    """Return the field at a path, for an entry that the path does not name the mapping that has it."""
    for step in path:
        if step == SOME_ENTRY:
            return field
        field = field[step]
    return field
