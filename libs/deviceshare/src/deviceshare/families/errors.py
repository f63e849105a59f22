"""Errors of device families themselves: none of these is an input that a user could correct."""

from types import TracebackType

from deviceshare.model import DeviceshareError, InputError


class UnknownFamilyError(DeviceshareError):
    """Something names a device family that is not registered here."""

    def __init__(self, family: str) -> None:
        super().__init__(f"there is no device family {family!r}")


class FamilyError(DeviceshareError):
    """A method of a device family raised an error that its protocol does not allow: a bug in the family."""

    def __init__(self, family: str, method: str, error: Exception) -> None:
        super().__init__(f"bug in the device family {family!r}: {method} raised {type(error).__name__}: {error}")


class calling:  # noqa: N801 - read as a statement
    """Raise any error of a call of a family's method as a :class:`FamilyError`, except an :class:`InputError`.

    A class, since it is entered several times for each pod: a generator takes five times as long.
    """

    __slots__ = ("_family", "_method")

    def __init__(self, family: str, method: str) -> None:
        self._family = family
        self._method = method

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, InputError):
            raise FamilyError(self._family, self._method, error) from error
