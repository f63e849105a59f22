"""Durations in Go's form: ``90s``, ``1h30m``, ``1.5h``, and ``0`` without a unit."""

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]{1,12}\.?[0-9]{0,9})(h|ms|us|µs|ns|m|s)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds, None if the text is not a duration."""
    if text == "0":
        return 0.0
    if not _WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
