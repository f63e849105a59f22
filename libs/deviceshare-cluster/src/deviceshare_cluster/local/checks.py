"""Small checks that the admission of every kind uses.

Each failure names the object, the field, the value and what would be right.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from deviceshare.model import RequestError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch


def shown(value: object) -> str:
    """Return a value as a message shows it: JSON, or ``nothing`` where the field is not there."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)


class At:
    """One object's name and a path in it, to fail with: ``at["containers"][0].fail(value, "...")``."""

    __slots__ = ("path", "subject")

    def __init__(self, subject: str, path: str = "") -> None:
        self.subject = subject
        self.path = path

    def __getitem__(self, step: str | int) -> "At":
        """Return the place one step further down; a step with a dot or a slash in it goes into brackets."""
        if isinstance(step, int) or "." in step or "/" in step:
            return At(self.subject, f"{self.path}[{step}]")
        return At(self.subject, f"{self.path}.{step}" if self.path else step)

    def error(self, value: object, expected: str) -> RequestError:
        """Return the error to raise for what stands here."""
        return RequestError(self.subject, self.path, shown(value), expected)

    def mapping(self, value: Any, expected: str = "a mapping") -> dict[str, Any]:
        """Return the value if it is a mapping; an absent one is empty."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(value, expected)
        return value

    def entry(self, value: Any) -> dict[str, Any]:
        """Return the value, an item of a list, if it is a mapping."""
        if not isinstance(value, dict):
            raise self.error(value, "a mapping")
        return value

    def items(self, value: Any) -> list[Any]:
        """Return the value if it is a list; an absent one is empty."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(value, "a list")
        return value

    def text(self, value: Any, expected: str = "a text that is not empty") -> str:
        """Return the value if it is a text with something in it."""
        if not isinstance(value, str) or not value:
            raise self.error(value, expected)
        return value

    def optional_text(self, value: Any) -> str:
        """Return the value if it is a text; an absent one is empty."""
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(value, "a text: write it in quotes")
        return value

    def whole(self, value: Any, least: int = 0) -> int:
        """Return the value if it is a whole number of ``least`` or more."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(value, f"a whole number of {least} or more")
        return value

    def label(self, value: Any) -> str:
        """Return the value if it is an RFC 1123 label (the name of a namespace, a container, a task)."""
        if not isinstance(value, str) or not _LABEL(value):
            raise self.error(
                value, "at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit"
            )
        return value

    def name(self, value: Any) -> str:
        """Return the value if it is an RFC 1123 subdomain (an object's name)."""
        if not isinstance(value, str) or len(value) > 253 or not _SUBDOMAIN(value):
            raise self.error(
                value,
                "at most 253 lower case letters, digits, '-' and '.', beginning and ending with a letter or digit",
            )
        return value

    def texts(self, value: Any) -> dict[str, str]:
        """Return the value if it maps texts to texts, as annotations do."""
        mapping = self.mapping(value)
        for key, one in mapping.items():
            if not isinstance(key, str) or not isinstance(one, str):
                raise self[str(key)].error(one, "a text: write it in quotes")
        return mapping

    def keys(self, mapping: Mapping[str, str]) -> None:
        """Check the names of labels or annotations."""
        for key in mapping:
            domain, slash, name = key.rpartition("/")
            if not _QUALIFIED(name) or (slash and not _SUBDOMAIN(domain)):
                raise self.error(key, "a name such as app or example.com/app, of letters, digits, '-', '_' and '.'")

    def labels(self, value: Any) -> None:
        """Check labels: texts, with the names and values that a label may have."""
        labels = self.texts(value)
        self.keys(labels)
        for key, one in labels.items():
            if not _LABEL_VALUE(one):
                raise self[key].error(one, "at most 63 letters, digits, '-', '_' and '.'")
