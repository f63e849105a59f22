"""Errors of input from users and device plugins: one base, one class for each kind of source.

Each error carries a :class:`Problem` with object, field, value and expected value. The handler quarantines this part of
the input, reports it once, and continues with the rest.
"""

from collections.abc import Sequence

import msgspec

MAX_PROBLEMS = 64
"""Problems of one object that its fact names."""
_PART_LENGTH = 512
"""Characters of each part of a problem in a fact."""
CARD_MISSING, CARD_UNHEALTHY = "card missing", "card unhealthy"
NODE_MISSING, DEVICES_MISSING, DEVICES_DIFFER = "node missing", "devices missing", "devices differ"
DEVICE_PROBLEMS = (CARD_MISSING, CARD_UNHEALTHY, NODE_MISSING, DEVICES_MISSING, DEVICES_DIFFER)
"""The values of :attr:`Problem.field` for the devices of bound pods."""


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """An invalid field of an object.

    ``subject`` names the object as ``kubectl`` does (``Node gpu-1``, ``Pod default/a``, ``File jobs.yaml``), ``field``
    is the path in the object, ``value`` the invalid value, ``expected`` a description of valid values.

    For the devices of a bound pod ``field`` is one of :data:`DEVICE_PROBLEMS`, ``value`` a sentence, ``expected`` ''.
    """

    subject: str
    field: str
    value: str
    expected: str

    def __str__(self) -> str:
        """Return the user-visible message."""
        if not self.expected and self.field in DEVICE_PROBLEMS:
            return f"{self.subject}: {self.value}"
        shown = self.value if len(self.value) <= 120 else f"{self.value[:117]}..."
        return f"{self.subject}: {self.field}: {shown!r} is not valid: expected {self.expected}"


def limited(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems of one object as its fact has them: at most :data:`MAX_PROBLEMS`, with short texts.

    The last one says how many more there are. Values are those of a user, who may write 1.5 MB of them.
    """
    found = tuple(_shortened(each) for each in problems[:MAX_PROBLEMS])
    if (more := len(problems) - MAX_PROBLEMS) > 0:
        last = Problem(found[-1].subject, "…", f"{more + 1} more problems", f"at most {MAX_PROBLEMS}")
        found = (*found[:-1], last)
    return found


def _shortened(problem: Problem) -> Problem:
    parts = (problem.subject, problem.field, problem.value, problem.expected)
    if all(len(part) <= _PART_LENGTH for part in parts):
        return problem
    return Problem(*(part if len(part) <= _PART_LENGTH else f"{part[: _PART_LENGTH - 1]}…" for part in parts))


def describe_error(error: BaseException) -> str:
    """Return the reason that a message shows for an error: never '', although many an error has no text of its own.

    The object itself is no condition for it: ``error or "…"`` is always the error.
    """
    if text := str(error).strip():
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__


class DeviceshareError(Exception):
    """Base of all errors that this library raises deliberately."""


class InputError(DeviceshareError):
    """Input from a user or a device plugin is invalid."""

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        self.problem = Problem(subject, field, value if isinstance(value, str) else str(value), expected)
        super().__init__(str(self.problem))


class FormatError(InputError):
    """An annotation, label or quantity written by a device plugin or by Kubernetes is malformed."""


class RequestError(InputError):
    """A pod's request is invalid, such as -1 or 2.5 cards."""


class ConfigError(InputError):
    """The configuration of the scheduler or of a device plugin is invalid."""
