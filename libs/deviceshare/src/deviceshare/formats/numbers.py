"""Decimal numbers in annotations."""

from functools import lru_cache

from deviceshare.model import LARGEST


# Many cards have few distinct numbers: each is stored once.
@lru_cache(maxsize=1024)
def whole(text: str) -> int | None:
    """Return a number of ASCII digits, with optional blanks around it; None for other texts or above ``LARGEST``."""
    text = text.strip()
    if not (0 < len(text) <= 16 and text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= LARGEST else None
