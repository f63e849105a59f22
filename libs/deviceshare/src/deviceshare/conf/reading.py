"""Looking at parsed YAML: a wrong value is an error that names it, a name that nobody knows is a warning."""

from collections.abc import Collection, Mapping
from typing import Any

from deviceshare.conf.document import as_text
from deviceshare.conf.known import did_you_mean
from deviceshare.model import ConfigError

LARGEST = 2**31 - 1
"""The largest number that Volcano and the device plugins can read."""

_TRUTH = {word: value for value, words in ((True, "1 t true"), (False, "0 f false")) for word in words.split()}
_DIGITS = 10


class Reader:
    """Reads one configuration, collecting warnings. ``source`` says where it comes from, for messages.

    The fields that its methods take are paths in the file. Booleans and numbers may be strings. A value that is not
    there is None.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.warnings: list[str] = []

    def items(self, field: str, value: Any) -> list[Any]:
        """Return a list, empty where there is none."""
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, value, "a list")
        return value

    def mapping(self, field: str, value: Any) -> dict[str, Any]:
        """Return names with values."""
        if not isinstance(value, dict):
            raise self.error(field, value, "names with values")
        return {str(key): entry for key, entry in value.items()}

    def truth(self, field: str, value: Any) -> bool:
        """Return whether something is so; what is not there is not so."""
        if value is None:
            return False
        truth = _TRUTH.get(as_text(value).strip().lower())
        if truth is None:
            raise self.error(field, value, f"one of true, false{did_you_mean(as_text(value), ('true', 'false'))}")
        return truth

    def whole(self, field: str, value: Any, least: int, most: int) -> int:
        """Return a whole number in these bounds, both included."""
        text = as_text(value).strip()
        if isinstance(value, float) and value.is_integer():
            text = str(int(value))
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS else least - 1
        if isinstance(value, bool) or not least <= number <= most:
            bounds = f"from {least} to {most}" if most < LARGEST else f"from {least}"
            raise self.error(field, value, f"a whole number {bounds}")
        return number

    def choice(self, field: str, value: Any, choices: Collection[str], default: str) -> str:
        """Return one of some words, the default where nothing stands."""
        word = as_text(value).strip()
        if not word:
            return default
        if word not in choices:
            named = [choice for choice in choices if choice]
            raise self.error(field, value, f"one of {', '.join(named)}, or nothing{did_you_mean(word, named)}")
        return word

    def error(self, field: str, value: Any, expected: str) -> ConfigError:
        """Return what is wrong, to be raised."""
        return ConfigError(self.source, field, as_text(value), expected)

    def warn(self, field: str, message: str) -> None:
        """Note something that can be gone on with."""
        self.warnings.append(f"{self.source}: {field}: {message}")

    def is_known(self, field: str, name: str, names: Collection[str], noun: str) -> bool:
        """Return whether the name is known; if not, say so with the nearest known one and all others."""
        if name in names:
            return True
        hint = did_you_mean(name, names)
        self.warn(field or name, f"unknown {noun} '{name}' is ignored{hint}; known: {', '.join(names)}")
        return False

    def keys(self, field: str, section: Mapping[str, Any], names: Collection[str]) -> None:
        """Warn of keys that nobody knows."""
        for key in section:
            self.is_known(field, key, names, "key")
