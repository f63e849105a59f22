"""Claims that have more of devices than there is: schedulers that do not know of each other allocated them."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from deviceshare.families.dra.cluster_devices import ClusterDevices
from deviceshare.families.dra.in_use import device_result
from deviceshare.model import DeviceClaimFact, DeviceResult


class DeviceConflict(NamedTuple):
    """Two allocated claims, and a device of the first of which both together have too much."""

    claim: DeviceClaimFact
    other: DeviceClaimFact
    device: tuple[str, str, str]


def overused(known: ClusterDevices, result: DeviceResult, row: int | None = None) -> frozenset[Hashable]:
    """Return of what claims have more than there is: the device, and counter sets that it consumes from.

    Access of administrators uses nothing. Counter sets of a pool that several nodes see are looked at where the ``row``
    of one of them is given.
    """
    pool = result.driver, result.pool
    use = known.use(pool)
    if result.admin or use is None:
        return frozenset()
    try:
        device = known.device(result)[0]
    except LookupError:
        device = None
    found: set[Hashable] = {result.id} if use.is_overused(result.device, device) else set()
    row = known.row_of(pool) if row is None else row
    if device is not None and device.consumes_counters and row is not None:
        seen, left = known.seen(row), known.taken(row).left
        sets = {each for number in seen.numbers(result) for each, _ in seen.layout.devices[number].uses}
        found |= {(*pool, each) for each in sets if seen.layout.sets[each].is_negative(left[each])}
    return frozenset(found)


def new_conflicts(
    known: ClusterDevices, claim: DeviceClaimFact, among: Callable[[str], bool]
) -> Iterator[DeviceConflict]:
    """Yield the conflicts of a claim that has got devices, for each device that with the first other claim.

    With each other claim of a device there would be as many conflicts as claims squared. ``among``: whether a pool is
    looked at.
    """
    mine = {result: overused(known, result) for result in _results(claim) if among(result.pool)}
    mine = {result: found for result, found in mine.items() if found}
    uses = [known.use(pool) for pool in dict.fromkeys((result.driver, result.pool) for result in mine)]
    for key in dict.fromkeys(key for use in uses if use is not None for key in use.claims if key != claim.key):
        if mine and (other := known.claims.get(key)) is not None:
            theirs = {each for result in _results(other) for each in overused(known, result)}
            if both := [result for result, found in mine.items() if found & theirs]:
                yield DeviceConflict(claim, other, both[0].id)
                mine = {result: found for result, found in mine.items() if not found & theirs}


def _results(claim: DeviceClaimFact) -> Iterable[DeviceResult]:
    return map(device_result, claim.allocation.devices.results) if claim.allocation is not None else ()
