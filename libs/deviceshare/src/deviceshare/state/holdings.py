"""What pods hold of cards, and what that takes of a card.

A pod's init containers have their devices before its other containers have theirs: a card is charged the larger of its
largest init container and the sum of the others.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from deviceshare.model import INIT, WHOLE, Card, ContainerGrant, DeviceGrant, HostPort, Tenant


# There are many, and none can be part of a cycle: the garbage collector need not know them.
class Holding(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds on one node."""

    grants: tuple[ContainerGrant, ...]
    resources: tuple[tuple[str, int], ...]
    tenant: Tenant = Tenant()
    ports: tuple[HostPort, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    """What scores count beside ``resources`` (:func:`deviceshare.allocation.counted`)."""


class Usage(NamedTuple):
    """What is taken of a card: MiB, percent or AI cores, and how many containers share it."""

    memory: int = 0
    cores: int = 0
    slots: int = 0


class CardShare(NamedTuple):
    """A container's part of one card; ``position`` and ``stage`` as in :class:`~deviceshare.model.ContainerGrant`."""

    device: DeviceGrant
    position: int
    stage: str


def shares_by_card(grants: Iterable[ContainerGrant]) -> dict[str, list[CardShare]]:
    """Return what one pod's grants take, by the id of the card."""
    shares: dict[str, list[CardShare]] = {}
    for grant in grants:
        for device in grant.devices:
            shares.setdefault(device.id, []).append(CardShare(device, grant.position, grant.stage))
    return shares


def usage_of(card: Card, shares: Iterable[CardShare]) -> Usage:
    """Return what one pod's shares take of a card."""
    memory = cores = slots = 0
    first: dict[int, Usage] = {}
    for device, position, stage in shares:
        mebibytes = card.memory if device.memory == WHOLE else device.memory
        if stage == INIT:
            before = first.get(position, Usage())
            first[position] = Usage(before.memory + mebibytes, before.cores + device.cores, before.slots + 1)
        else:
            memory, cores, slots = memory + mebibytes, cores + device.cores, slots + 1
    if not first:
        return Usage(memory, cores, slots)
    return Usage(*(max(each) for each in zip((memory, cores, slots), *first.values(), strict=True)))


def shares_on(card: Card, holdings: Iterable[Holding]) -> list[list[CardShare]]:
    """Return for each pod that holds a part of a card its shares."""
    found: list[list[CardShare]] = []
    for holding in holdings:
        shares: list[CardShare] = []
        for grant in holding.grants:
            for device in grant.devices:
                if device.id == card.id:
                    shares.append(CardShare(device, grant.position, grant.stage))  # noqa: PERF401 - a hot path
        if shares:
            found.append(shares)
    return found


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum."""
    memory = cores = slots = 0
    for usage in usages:
        memory, cores, slots = memory + usage.memory, cores + usage.cores, slots + usage.slots
    return Usage(memory, cores, slots)


Counted = tuple[Usage, Mapping[str, int]]
"""What a family counts of a card: the amounts taken, and its own state by name."""
