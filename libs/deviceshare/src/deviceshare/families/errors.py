"""Errors of device families themselves: none of these is an input that a user could correct."""

from collections.abc import Iterator
from contextlib import contextmanager

from deviceshare.model import DeviceshareError, InputError


class UnknownFamilyError(DeviceshareError):
    """Something names a device family that is not registered here."""

    def __init__(self, family: str) -> None:
        super().__init__(f"there is no device family {family!r}")


class FamilyError(DeviceshareError):
    """A method of a device family raised an error that its protocol does not allow: a bug in the family."""

    def __init__(self, family: str, method: str, error: Exception) -> None:
        super().__init__(f"bug in the device family {family!r}: {method} raised {type(error).__name__}: {error}")


@contextmanager
def calling(family: str, method: str) -> Iterator[None]:
    """Raise any error of a call of a family's method as a :class:`FamilyError`, except an :class:`InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise FamilyError(family, method, error) from error
