"""The signing keys shared by the binder, which signs device annotations, and inventory, which verifies them."""

import os
from pathlib import Path

from deviceshare.model import ConfigError, read_keys

KEY, FILE = "DEVICESHARE_SIGNING_KEY", "DEVICESHARE_SIGNING_KEY_FILE"
"""Environment variables: the keys, or the path of a file with the keys."""
SHORTEST = 16
OFF = (
    f"nothing is signed: device annotations count up to the pod's request, and who may write the status of a PodGroup \
can admit it; set {FILE}"
)
"""The warning of a service without keys."""


def signing_keys() -> tuple[bytes, ...]:
    """Return the keys, one per line: the first signs, all are accepted. Without keys nothing is signed.

    Raises:
        ConfigError: a key is too short, or the file cannot be read or holds none.
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
        # The error must not show the key.
        raise ConfigError("environment", FILE if path else KEY, "…", f"keys of at least {SHORTEST} bytes, one a line")
    return keys
