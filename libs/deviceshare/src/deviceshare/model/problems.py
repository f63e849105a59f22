"""What can be wrong with what users give us: one base, one class for each kind of source.

Bad input is a normal day. Each error carries a :class:`Problem`, which names the object, the field, the value and what
would be right; whoever catches it puts that part aside, says so once, and goes on with the rest.
"""

import msgspec


class Problem(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is wrong with one field of one object.

    ``subject`` names the object as ``kubectl`` users know it (``Node gpu-1``, ``Pod default/a``, ``File jobs.yaml``),
    ``field`` is a path in it, ``value`` what stands there, ``expected`` what would be right.
    """

    subject: str
    field: str
    value: str
    expected: str

    def __str__(self) -> str:
        """Return the one line that users see."""
        shown = self.value if len(self.value) <= 120 else f"{self.value[:117]}..."
        return f"{self.subject}: {self.field}: {shown!r} is not valid: expected {self.expected}"


class DeviceshareError(Exception):
    """Base of every error that this library raises on purpose."""


class InputError(DeviceshareError):
    """Something that a user or a device plugin wrote cannot be used."""

    def __init__(self, subject: str, field: str, value: object, expected: str) -> None:
        self.problem = Problem(subject, field, value if isinstance(value, str) else str(value), expected)
        super().__init__(str(self.problem))


class FormatError(InputError):
    """An annotation, label or quantity that a device plugin or Kubernetes wrote does not have its form."""


class RequestError(InputError):
    """A pod asks for something that cannot be meant, such as -1 or 2.5 cards."""


class ConfigError(InputError):
    """The scheduler's or a device plugin's configuration cannot be used."""
