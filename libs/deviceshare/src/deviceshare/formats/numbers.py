"""Plain decimal numbers inside annotations."""

from functools import lru_cache

from deviceshare.model import LARGEST


# Cards are many, and their numbers few: each stands in memory once.
@lru_cache(maxsize=1024)
def whole(text: str) -> int | None:
    """Return a number of ASCII digits, blanks around it allowed, or None for anything else or above ``LARGEST``."""
    text = text.strip()
    if not (0 < len(text) <= 16 and text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= LARGEST else None
