"""``device-config.yaml`` as values: the sections that device families declare, read and check by themselves."""

from collections.abc import Iterable
from typing import ClassVar, Self, TypeVar

import msgspec
from msgspec.structs import replace

from deviceshare.conf.reading import ConfField


class DeviceSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section as a value. The defaults of a subclass's fields apply where the file does not have the section."""

    key: ClassVar[str]
    """The name of the section."""
    product: ClassVar[str]
    """Whose resources it names, for messages."""
    gives_way: ClassVar[bool] = False
    """Whether other sections may name its resources where the file does not have it: a warning instead of an error."""

    @classmethod
    def read(cls, field: ConfField) -> Self:
        """Read and check the section. Raises :class:`~deviceshare.model.ConfigError`."""
        raise NotImplementedError

    @classmethod
    def built_in(cls) -> Self:
        """Return what applies without a file."""
        return cls()

    def resources(self) -> Iterable[tuple[str, str]]:
        """Return the resources that it names, '' for none, each with its owner for messages: the section, or a part.

        A resource may be named once in the whole file.
        """
        return ()


S = TypeVar("S", bound=DeviceSection)

_BUILT_IN: dict[type[DeviceSection], DeviceSection] = {}
"""The declared sections, with what applies without a file."""


def add_device_section(section: type[DeviceSection]) -> None:
    """Declare the section of a device family; one of the same name that was declared before is replaced.

    Raises:
        ValueError: another family has declared a section of this key.
    """
    for other in [other for other in _BUILT_IN if other.key == section.key]:
        if _name(other) != _name(section):
            raise ValueError(f"the section {section.key} of {_name(section)} is that of {_name(other)} already")
        del _BUILT_IN[other]
    _BUILT_IN[section] = section.built_in()


def _name(section: type[DeviceSection]) -> str:
    return f"{section.__module__}.{section.__qualname__}"


def declared_sections() -> tuple[type[DeviceSection], ...]:
    """Return the declared sections."""
    return tuple(_BUILT_IN)


class DevicesConf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file: all declared sections by their type; one that is missing here has its built-in values."""

    sections: dict[type[DeviceSection], DeviceSection] = {}
    warnings: tuple[str, ...] = ()

    def section(self, kind: type[S]) -> S:
        """Return the section of a declared kind."""
        section = self.sections.get(kind) or _BUILT_IN[kind]
        assert isinstance(section, kind)
        return section

    def having(self, *sections: DeviceSection) -> "DevicesConf":
        """Return the configuration with these sections instead of its own of their kinds."""
        return replace(self, sections=self.sections | {type(section): section for section in sections})

    def resources(self, *, without: type[DeviceSection] | None = None) -> frozenset[str]:
        """Return all resources that the sections name, ``without`` those of one section."""
        sections = (self.section(kind) for kind in _BUILT_IN if kind is not without)
        return frozenset(name for section in sections for name, _ in section.resources() if name)


BUILT_IN = DevicesConf()
"""The configuration without a ConfigMap."""
