"""The registry of device families: the built-in ones, and those of other packages."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from deviceshare.conf import add_device_section, add_family_flag
from deviceshare.families.errors import UnknownFamilyError
from deviceshare.families.protocol import Family
from deviceshare.families.selection import WISHES
from deviceshare.model import CARD_POLICY, NODE_POLICY, ContainerGrant

FAMILIES: list[Family] = []
"""All families, in the order in which the requests of a pod are placed."""

BY_NAME: dict[str, Family] = {}


class PodKeys(NamedTuple):
    """What is read of pods: annotations of families, with patterns as prefix and suffix; their labels; annotations by
    which a pod shares no card with others of its PodGroup; annotations that select policies, ours and of families.
    """

    annotations: frozenset[str]
    patterns: tuple[tuple[str, str], ...]
    labels: frozenset[str]
    spreading: frozenset[str]
    policies: frozenset[str]


@cache
def pod_keys() -> PodKeys:
    """Return what the registered families read of pods."""
    annotations = WISHES.union(*(family.pod_annotations for family in FAMILIES))
    patterns = [key.partition("*") for key in sorted(annotations) if "*" in key]
    return PodKeys(
        annotations,
        tuple((start, end) for start, _, end in patterns),
        frozenset[str]().union(*(family.pod_labels for family in FAMILIES)),
        frozenset(family.apart_annotation for family in FAMILIES) - {""},
        frozenset({NODE_POLICY, CARD_POLICY}).union(*(family.policy_annotations for family in FAMILIES)),
    )


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
    pod_keys.cache_clear()
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
