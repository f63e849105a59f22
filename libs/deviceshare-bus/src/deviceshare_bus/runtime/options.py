"""Types of the services' options; argparse also applies them to defaults from the environment."""

import os
from argparse import ArgumentTypeError

from deviceshare.model import ConfigError

from deviceshare_bus.cores.core_log import LIMIT


def port(text: str) -> int:
    """Return a port number, 0 for any. Raises ArgumentTypeError."""
    if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535:
        return int(text)
    raise ArgumentTypeError(f"{text!r} is not valid: expected a port, 0 to 65535")


def positive(text: str) -> float:
    """Return a finite number above 0. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0.0 < number < float("inf"):
        return number
    raise ArgumentTypeError(f"{text!r} is not valid: expected a number above 0")


def replicas(text: str) -> int:
    """Return how many servers hold each stream: 1, 3 or 5. Raises ArgumentTypeError."""
    if text in ("1", "3", "5"):
        return int(text)
    raise ArgumentTypeError(f"{text!r} is not valid: expected 1, 3 or 5")


def seconds(text: str) -> float:
    """Return a finite number of seconds, 0 or more. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if 0.0 <= number < float("inf"):
        return number
    raise ArgumentTypeError(f"{text!r} is not valid: expected a number of seconds, 0 or more")


def log_level(text: str) -> str:
    """Return a log level. Raises ArgumentTypeError."""
    if text.lower() in ("debug", "info", "warning", "error"):
        return text
    raise ArgumentTypeError(f"{text!r} is not valid: expected debug, info, warning or error")


def core_log_limit() -> int:
    """Return how many entries a core log keeps. Raises ConfigError."""
    text = os.environ.get("DEVICESHARE_CORE_LOG_ENTRIES") or str(LIMIT)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text)):
        raise ConfigError("environment", "DEVICESHARE_CORE_LOG_ENTRIES", text, "a whole number, 1 to 999999999")
    return int(text)
