"""The registry of device families: the built-in ones, and those of other packages."""

from collections.abc import Sequence

from deviceshare.conf import add_device_section, add_family_flag
from deviceshare.families.errors import UnknownFamilyError
from deviceshare.families.protocol import Family
from deviceshare.model import ContainerGrant

FAMILIES: list[Family] = []
"""All families, in the order in which the requests of a pod are placed."""

BY_NAME: dict[str, Family] = {}


def family_named(name: str) -> Family:
    """Return a registered family.

    Raises:
        UnknownFamilyError: there is none of this name.
    """
    family = BY_NAME.get(name)
    if family is None:
        raise UnknownFamilyError(name)
    return family


def register(family: Family) -> None:
    """Register a family, before anything is decoded or decided. A family of the same name is replaced.

    Raises:
        TypeError: the family lacks members of the protocol.
    """
    members = [name for kind in Family.__mro__ for name in (*getattr(kind, "__annotations__", ()), *vars(kind))]
    if missing := [name for name in members if not name.startswith("_") and not hasattr(family, name)]:
        raise TypeError(f"{type(family).__qualname__} is no device family: it has no {', '.join(missing)}")
    known = BY_NAME.get(family.name)
    if known is not None:
        FAMILIES[FAMILIES.index(known)] = family
    else:
        FAMILIES.append(family)
    BY_NAME[family.name] = family
    add_family_flag(family.flag)
    if family.section is not None:
        add_device_section(family.section)


def caveats(grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
    """Return what the device plugins will not do with the grants to one pod; see :meth:`.protocol.Family.caveats`."""
    names = dict.fromkeys(grant.family for grant in grants)
    return tuple(
        caveat
        for name in names
        if name in BY_NAME
        for caveat in BY_NAME[name].caveats([grant for grant in grants if grant.family == name])
    )
