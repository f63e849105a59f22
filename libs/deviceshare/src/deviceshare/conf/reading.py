"""Fields of a configuration: a wrong value is an error, an unknown name a warning."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Self

from deviceshare.conf.document import read_document
from deviceshare.conf.known import did_you_mean
from deviceshare.model import ConfigError, Field, FieldWarning, Source, as_text

LARGEST = 2**31 - 1
"""The largest number that Volcano and the device plugins can read."""

_BOOLEANS = {word: value for value, words in ((True, "1 t true"), (False, "0 f false")) for word in words.split()}
_DIGITS = 10
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def read_root(text: str, source: str, key: str, expected: str) -> "ConfField":
    """Return a configuration as a field; see :func:`deviceshare.conf.document.read_document`."""
    warnings: list[FieldWarning] = []
    document, origin = read_document(text, source, key, expected, warnings)
    root = ConfField(Source(source, ConfigError, locate=origin.locate), document)
    root.source.warnings += warnings
    return root


class ConfField(Field):
    """A field of a configuration. Booleans and numbers may be strings, as in Volcano's guides."""

    __slots__ = ()

    def names(self) -> Self:
        """Return a mapping with its keys as text."""
        return self.holding({str(key): value for key, value in self.mapping("names with values").items()})

    def section(self, known: Collection[str]) -> Self:
        """Return a mapping with its keys as text; add a warning for each unknown key."""
        section = self.names()
        for key in section.value:
            section.is_known(key, known, "key")
        return section

    def blank(self) -> bool:
        """Return whether the value is absent or blank."""
        return not as_text(self.value).strip()

    def boolean(self) -> bool:
        """Return a boolean, False if absent."""
        if self.value is None:
            return False
        found = _BOOLEANS.get(as_text(self.value).strip().lower())
        if found is None:
            raise self.error(f"one of true, false{did_you_mean(as_text(self.value), ('true', 'false'))}")
        return found

    def number(self, least: int = 0, most: int = LARGEST, default: int | None = None) -> int:
        """Return a whole number within inclusive bounds; ``default``, if not None, where it is absent."""
        if self.value is None and default is not None:
            return default
        text = as_text(self.value).strip()
        if isinstance(self.value, float) and self.value.is_integer():
            text = str(int(self.value))
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS else least - 1
        if isinstance(self.value, bool) or not least <= number <= most:
            raise self.error(f"a whole number from {least}" + (f" to {most}" if most < LARGEST else ""))
        return number

    def word(self, choices: Collection[str], default: str) -> str:
        """Return a text that is one of the choices, the default if it is absent or blank."""
        word = as_text(self.value).strip()
        if word and word not in choices:
            named = [choice for choice in choices if choice]
            raise self.error(f"one of {', '.join(named)}, or nothing{did_you_mean(word, named)}")
        return word or default

    def matching(self, form: re.Pattern[str], expected: str) -> str:
        """Return a text that has a form."""
        text = as_text(self.value).strip()
        if not form.fullmatch(text):
            raise self.error(expected)
        return text

    def resource(self, default: str) -> str:
        """Return the name of an extended resource, which may be '', the default if it is absent."""
        if self.value is None:
            return default
        if not isinstance(self.value, str) or (self.value and not _RESOURCE.fullmatch(self.value)):
            raise self.error("the name of an extended resource, such as volcano.sh/vgpu-number")
        return self.value

    def check_unique(self, names: Iterable[str], expected: str) -> None:
        """Check that no name is twice among names of the value."""
        for name, times in Counter(names).items():
            if times > 1:
                raise self.holding(name).error(f"{expected}: not {times} times")

    def warn(self, message: str, key: str = "") -> None:
        """Add a warning about the value, or about a key of it."""
        super().warn(f"{self.path or key}: {message}", key)

    def is_known(self, name: str, known: Collection[str], noun: str) -> bool:
        """Return whether a name is known; if not, add a warning with the most similar name and all known names."""
        if name in known:
            return True
        hint = did_you_mean(name, known)
        self.warn(f"unknown {noun} '{name}' is ignored{hint}; known: {', '.join(known)}", name)
        return False
