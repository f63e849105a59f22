"""Fields of a manifest, with the checks that the admission of every kind uses."""

import re
from typing import Any, NamedTuple, Self

from deviceshare.model import Field, RequestError, Source

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch


class FieldWarning(NamedTuple):
    """A warning about a field of an object; ``field`` is its path, ``text`` names object and field."""

    field: str
    text: str


class Manifested(Source):
    """An object of a manifest, and the warnings about it. ``root`` is the object as a field."""

    __slots__ = ("root", "warnings")

    def __init__(self, subject: str, obj: Any) -> None:
        super().__init__(subject, RequestError)
        self.warnings: list[FieldWarning] = []
        self.root = ManifestField(self, obj)


class ManifestField(Field):
    """A field of a manifest. All methods raise RequestError."""

    __slots__ = ()
    source: Manifested
    absent = "nothing"

    def warn(self, message: str) -> None:
        """Add a warning; ``message`` names the field."""
        self.source.warnings.append(FieldWarning(self.path, f"{self.source.subject}: {message}"))

    def entries(self) -> dict[str, Any]:
        """Return a mapping, an item of a list."""
        return self.required("a mapping").mapping()

    def label(self) -> str:
        """Return an RFC 1123 label (the name of a namespace, a container, a task)."""
        if not isinstance(self.value, str) or not _LABEL(self.value):
            raise self.error(
                "at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit"
            )
        return self.value

    def name(self) -> str:
        """Return an RFC 1123 subdomain (an object's name)."""
        if not isinstance(self.value, str) or len(self.value) > 253 or not _SUBDOMAIN(self.value):
            raise self.error(
                "at most 253 lower case letters, digits, '-' and '.', beginning and ending with a letter or digit"
            )
        return self.value

    def texts(self) -> Self:
        """Return the field, a mapping of texts to texts, as annotations are."""
        for key, value in self.mapping().items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise self[str(key)].holding(value).error("a text: write it in quotes")
        return self

    def check_keys(self) -> None:
        """Check the names of labels or annotations."""
        for key in self.mapping():
            domain, slash, name = key.rpartition("/")
            if not _QUALIFIED(name) or (slash and not _SUBDOMAIN(domain)):
                expected = "a name such as app or example.com/app, of letters, digits, '-', '_' and '.'"
                raise self.holding(key).error(expected)

    def check_labels(self) -> None:
        """Check labels: texts, with the names and values that a label may have."""
        self.texts().check_keys()
        for key, value in self.mapping().items():
            if not _LABEL_VALUE(value):
                raise self[key].error("at most 63 letters, digits, '-', '_' and '.'")
