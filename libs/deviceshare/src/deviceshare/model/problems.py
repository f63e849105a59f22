"""Errors of invalid input: one base class, and one class for each kind of source.

Each error has a :class:`Problem`, which names the object, the field, the value and the expected value. The caller
leaves the invalid part out, reports the problem once and continues with the rest.
"""

import msgspec


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """An invalid value of one field of one object.

    ``subject`` names the object (``Node gpu-1``, ``Pod default/a``, ``File jobs.yaml``), ``field`` is a path in it,
    ``value`` the value found, ``expected`` a description of valid values.
    """

    subject: str
    field: str
    value: str
    expected: str

    def __str__(self) -> str:
        """Return the message for users, one line."""
        shown = self.value if len(self.value) <= 120 else f"{self.value[:117]}..."
        return f"{self.subject}: {self.field}: {shown!r} is not valid: expected {self.expected}"


class DeviceshareError(Exception):
    """Base class of the errors that this library raises."""


class InputError(DeviceshareError):
    """Input of a user or a device plugin is invalid."""

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        self.problem = Problem(subject, field, value if isinstance(value, str) else str(value), expected)
        super().__init__(str(self.problem))


class FormatError(InputError):
    """An annotation, label or quantity of a device plugin or of Kubernetes is malformed."""


class RequestError(InputError):
    """A pod's request is invalid, such as -1 or 2.5 cards."""


class ConfigError(InputError):
    """The scheduler's or a device plugin's configuration is invalid."""
