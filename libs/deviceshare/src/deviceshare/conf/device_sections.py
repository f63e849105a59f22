"""Sections of ``device-config.yaml`` that device families declare, read and check by themselves."""

from collections.abc import Iterable
from typing import ClassVar, Self

import msgspec

from deviceshare.conf.reading import ConfField


class DeviceSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section as a value. The defaults of a subclass's fields apply where the file does not have the section."""

    key: ClassVar[str]
    """The name of the section."""

    @classmethod
    def read(cls, field: ConfField) -> Self:
        """Read and check the section. Raises :class:`~deviceshare.model.ConfigError`."""
        raise NotImplementedError

    def resources(self) -> Iterable[str]:
        """Return the resources that it names; '' for none. No two sections may name the same one."""
        return ()


_SECTIONS: dict[str, type[DeviceSection]] = {}


def device_sections() -> tuple[type[DeviceSection], ...]:
    """Return the declared sections."""
    return tuple(_SECTIONS.values())


def add_device_section(section: type[DeviceSection]) -> None:
    """Declare the section of a device family; one of the same key is replaced."""
    _SECTIONS[section.key] = section
