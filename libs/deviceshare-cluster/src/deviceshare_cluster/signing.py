"""The signing keys that the binder and inventory share, by which inventory recognizes the binder's annotations."""

import os
from pathlib import Path

from deviceshare.model import ConfigError, read_keys

KEY, FILE = "DEVICESHARE_SIGNING_KEY", "DEVICESHARE_SIGNING_KEY_FILE"
"""Environment variables: the keys, or the path of a file with the keys."""
SHORTEST = 16


def signing_keys() -> tuple[bytes, ...]:
    """Return the keys, one per line: the first key signs, all keys verify. Without keys nothing is signed.

    Raises:
        ConfigError: a key is too short, or the file cannot be read or contains no key.
    """
    path = os.environ.get(FILE, "")
    try:
        text = Path(path).read_text(encoding="utf-8") if path else os.environ.get(KEY, "")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("environment", FILE, path, f"a file that holds keys ({error})") from error
    keys = read_keys(text)
    if path and not keys:
        raise ConfigError("environment", FILE, path, "a file that holds at least one key")
    if any(len(key) < SHORTEST for key in keys):
        # The message must not contain the key.
        raise ConfigError("environment", FILE if path else KEY, "…", f"keys of at least {SHORTEST} bytes, one a line")
    return keys
