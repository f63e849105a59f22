"""Decimal numbers in annotations."""

from functools import lru_cache

from deviceshare.model import LARGEST

_TEXT_LENGTH = 64


def whole(text: str) -> int | None:
    """Return a number in ASCII digits, surrounding blanks allowed, or None if malformed or above ``LARGEST``."""
    return _whole(text) if len(text) <= _TEXT_LENGTH else None


# Cached: many cards share few distinct numbers.
@lru_cache(maxsize=1024)
def _whole(text: str) -> int | None:
    text = text.strip()
    if not (0 < len(text) <= 16 and text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= LARGEST else None
