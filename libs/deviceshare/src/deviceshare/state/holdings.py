"""What pods hold of cards, and the usage of a card that follows.

Init containers run before the pod's other containers: a card is charged the larger of the pod's largest init container
and the sum of the others.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from deviceshare.model import INIT, WHOLE, Card, ContainerGrant, DeviceGrant, HostPort, Tenant


# Excluded from garbage collection: there are many, and none can be part of a reference cycle.
class Holding(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds on one node; ``resources`` includes what only node scores count.

    ``waits_for``: the uids of the pods in whose place a nominated pod comes; () for every other pod.
    """

    grants: tuple[ContainerGrant, ...]
    resources: tuple[tuple[str, int], ...]
    tenant: Tenant = Tenant()
    ports: tuple[HostPort, ...] = ()
    waits_for: tuple[str, ...] = ()


class Usage(NamedTuple):
    """Usage of a card: MiB, percent or AI cores, and the number of containers that share it."""

    memory: int = 0
    cores: int = 0
    slots: int = 0


class CardShare(msgspec.Struct, frozen=True, gc=False):
    """A container's part of one card; ``position`` and ``stage`` as in :class:`~deviceshare.model.ContainerGrant`."""

    device: DeviceGrant
    position: int
    stage: str


def shares_by_card(grants: Iterable[ContainerGrant]) -> dict[str, list[CardShare]]:
    """Return the shares of one pod by the id of the card."""
    shares: dict[str, list[CardShare]] = {}
    for grant in grants:
        for device in grant.devices:
            shares.setdefault(device.id, []).append(CardShare(device, grant.position, grant.stage))
    return shares


def usage_of(card: Card, shares: Iterable[CardShare]) -> Usage:
    """Return the usage of a card by the shares of one pod."""
    memory = cores = slots = 0
    first: dict[int, Usage] | None = None  # few pods have init containers with devices
    for share in shares:
        device = share.device
        mebibytes = card.memory if device.memory == WHOLE else device.memory
        if share.stage == INIT:
            first = {} if first is None else first
            before = first.get(share.position, Usage())
            first[share.position] = Usage(before.memory + mebibytes, before.cores + device.cores, before.slots + 1)
        else:
            memory, cores, slots = memory + mebibytes, cores + device.cores, slots + 1
    if first is None:
        return Usage(memory, cores, slots)
    return Usage(*(max(each) for each in zip((memory, cores, slots), *first.values(), strict=True)))


def shares_on(card: Card, holdings: Iterable[Holding]) -> list[list[CardShare]]:
    """Return the shares of a card, one list for each pod that has some."""
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
"""What a family counts of a card: usage, and the values of its ``state`` by name."""
