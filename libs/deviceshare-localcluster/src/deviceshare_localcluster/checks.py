"""Fields of a manifest, with the checks that all kinds share."""

import re
from typing import Any, Self

from deviceshare.model import Field, RequestError, Source

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch


def manifest_root(subject: str, obj: Any) -> "ManifestField":
    """Return an object of a manifest as a field."""
    return ManifestField(Source(subject, RequestError, absent="nothing"), obj)


class ManifestField(Field):
    """A field of a manifest. All methods raise RequestError."""

    __slots__ = ()

    def ensured(self, name: str) -> Self:
        """Return a mapping in this mapping, adding it if absent."""
        self.value[name] = self[name].optional_mapping()
        return self[name]

    def label(self) -> str:
        """Return an RFC 1123 label (the name of a namespace, a container, a task)."""
        if not isinstance(self.value, str) or not _LABEL(self.value):
            raise self.error(
                "at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit"
            )
        return self.value

    def own_label(self, names: set[str], of_what: str) -> str:
        """Return a :meth:`label` that is not among these names, and add it to them."""
        label = self.label()
        if label in names:
            raise self.error(f"a name that no other {of_what} has")
        names.add(label)
        return label

    def name(self) -> str:
        """Return an RFC 1123 subdomain (an object's name)."""
        if not isinstance(self.value, str) or len(self.value) > 253 or not _SUBDOMAIN(self.value):
            raise self.error(
                "at most 253 lower case letters, digits, '-' and '.', beginning and ending with a letter or digit"
            )
        return self.value

    def texts(self) -> Self:
        """Return the field, a mapping of texts to texts, such as annotations."""
        for key, value in self.optional_mapping().items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise self[str(key)].holding(value).error("a text: write it in quotes")
        return self

    def check_keys(self) -> None:
        """Check the names of labels or annotations."""
        for key in self.optional_mapping():
            domain, slash, name = key.rpartition("/")
            if not _QUALIFIED(name) or (slash and not _SUBDOMAIN(domain)):
                expected = "a name such as app or example.com/app, of letters, digits, '-', '_' and '.'"
                raise self.holding(key).error(expected)

    def check_labels(self) -> None:
        """Check the names and values of labels."""
        self.texts().check_keys()
        for key, value in self.optional_mapping().items():
            if not _LABEL_VALUE(value):
                raise self[key].error("at most 63 letters, digits, '-', '_' and '.'")

    def check_metadata(self) -> None:
        """Check the labels and annotations of an object, or of a template of objects."""
        self.optional_mapping()
        self["labels"].check_labels()
        self["annotations"].texts().check_keys()
