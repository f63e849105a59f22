"""Validation of input: fields of parsed YAML and JSON, each a value and its path in an object.

The methods of :class:`Field` return the value in the type that the caller needs, or raise the error of the field's
:class:`Source`, which names the object, the field, its value and the expected value.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Self

import msgspec

from deviceshare.model.problems import InputError

_LONGEST_VALUE = 256
"""Characters of a value that an error shows."""


def as_text(value: Any) -> str:
    """Return a parsed value on one line: text unchanged, structures as JSON, None as ''."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)  # keys that are not text, numbers beyond 64 bits, recursive aliases


class FieldWarning(NamedTuple):
    """A warning about a field: its path, and a text that names the object and the field."""

    field: str
    text: str


class Source:
    """The object that fields belong to, and the warnings about it.

    Args:
        subject: the object in messages, such as ``Pod default/a``.
        error: the class of the errors that its fields raise.
        absent: the text for an absent value in messages.
        locate: returns the subject with the line and column of a path, or of a key of the mapping at that path.
            Called only when an error or a warning is reported.
    """

    def __init__(
        self,
        subject: str,
        error: type[InputError],
        absent: str = "",
        locate: Callable[[str, str], str] | None = None,
    ) -> None:
        self.subject = subject
        self.error = error
        self.absent = absent
        self.warnings: list[FieldWarning] = []
        self._locate = locate

    def locate(self, path: str, key: str = "") -> str:
        """Return the subject, with the position of a path, or of a key of the mapping there, if known."""
        return self._locate(path, key) if self._locate else self.subject


class Field:
    """A value and the path to it: ``Field(source, obj)["spec"]["containers"][0]``.

    An absent field has the value None.
    """

    __slots__ = ("path", "source", "value")

    def __init__(self, source: Source, value: Any, path: str = "") -> None:
        self.source = source
        self.value = value
        self.path = path

    def __getitem__(self, step: str | int) -> Self:
        """Return an item of a list, or the field of a mapping; a name with a dot or a slash is shown in brackets."""
        if isinstance(step, int) or "." in step or "/" in step:
            return self.entry(step)
        return type(self)(self.source, self._part(step), f"{self.path}.{step}" if self.path else step)

    def entry(self, step: str | int) -> Self:
        """Return an item of a list, or the entry of a mapping with free keys, shown in brackets."""
        return type(self)(self.source, self._part(step), f"{self.path}[{step}]")

    def _part(self, step: str | int) -> Any:
        if isinstance(self.value, dict):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None

    def holding(self, value: Any) -> Self:
        """Return a field with the same path and another value."""
        return type(self)(self.source, value, self.path)

    def otherwise(self, default: Any) -> Self:
        """Return the field, with the default if its value is absent, empty or 0."""
        return self if self.value else self.holding(default)

    def shown(self) -> str:
        """Return the value for messages."""
        return self.source.absent if self.value is None else as_text(self.value)[:_LONGEST_VALUE]

    def error(self, expected: str) -> InputError:
        """Return the error to raise for the value."""
        return self.source.error(self.source.locate(self.path), self.path or "$", self.shown(), expected)

    def warn(self, message: str, key: str = "") -> None:
        """Add a warning about the value, or about a key of it; ``message`` names the field."""
        text = f"{self.source.locate(self.path, key)}: {message}"
        self.source.warnings.append(FieldWarning(self.path, text))

    def mapping(self, expected: str = "a mapping") -> dict[str, Any]:
        """Return a mapping."""
        if not isinstance(self.value, dict):
            raise self.error(expected)
        return self.value

    def optional_mapping(self, expected: str = "a mapping") -> dict[str, Any]:
        """Return a mapping, empty if absent."""
        return {} if self.value is None else self.mapping(expected)

    def items(self) -> list[Self]:
        """Return the items of a list, none if absent."""
        value = [] if self.value is None else self.value
        if not isinstance(value, list):
            raise self.error("a list")
        return [self.entry(index) for index in range(len(value))]

    def some_items(self, expected: str) -> list[Self]:
        """Return the items of a list with at least one item."""
        items = self.items()
        if not items:
            raise self.error(expected)
        return items

    def text(self, expected: str = "a text that is not empty") -> str:
        """Return a non-empty text."""
        if not isinstance(self.value, str) or not self.value:
            raise self.error(expected)
        return self.value

    def optional_text(self) -> str:
        """Return a text, '' if absent."""
        value = "" if self.value is None else self.value
        if not isinstance(value, str):
            raise self.error("a text: write it in quotes")
        return value

    def whole(self, least: int = 0) -> int:
        """Return a whole number, at least ``least``."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < least:
            raise self.error(f"a whole number of {least} or more")
        return self.value

    def choice(self, choices: Collection[str]) -> str:
        """Return a text that is one of the choices."""
        if not isinstance(self.value, str) or self.value not in choices:
            raise self.error(f"one of {', '.join(choices)}")
        return self.value
