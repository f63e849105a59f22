"""The devices that claims use."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction

from deviceshare.families.dra.capacity import Amounts, fits
from deviceshare.families.dra.pools import PoolName
from deviceshare.model import DeviceClaim, DeviceClaimFact, DeviceResult, Quantity, parse_quantity
from deviceshare.model.device_objects import Device, Result


class Shares:
    """The shares that a device has: their number, and what they consume together."""

    __slots__ = ("amounts", "number")

    def __init__(self) -> None:
        self.number, self.amounts = 0, Amounts()


class PoolUse:
    """The devices in use of a pool, by name: how many claims have a dedicated one, and the shares of the others.

    More than one claim has a dedicated device only if schedulers allocate it at the same time.
    """

    __slots__ = ("_key", "claims", "dedicated", "shares")

    def __init__(self) -> None:
        self.dedicated = Counter[str]()
        self.shares: dict[str, Shares] = {}
        self.claims = Counter[str]()
        """The claims that have devices of the pool, with their number, the first that got them first."""
        self._key: Hashable = None

    def add(self, result: DeviceResult, sign: int, claim: str = "") -> None:
        """Add (``sign`` 1) or subtract (-1) a device of a claim."""
        self._key = None
        self.claims[claim] += sign
        if not self.claims[claim]:
            del self.claims[claim]
        consumed = _amounts(result.consumed) if result.shared else None
        if consumed is None:
            self.dedicated[result.device] += sign
            if not self.dedicated[result.device]:
                del self.dedicated[result.device]
            return
        shares = self.shares.setdefault(result.device, Shares())
        shares.number += sign
        for name, amount in consumed.items():
            shares.amounts[name] = shares.amounts.get(name, Fraction(0)) + sign * amount
        if not shares.number:
            del self.shares[result.device]

    @property
    def key(self) -> Hashable:
        """What is equal where the same devices are in use, for the same amounts."""
        if self._key is None:
            shares = [(name, *sorted(each.amounts.items())) for name, each in sorted(self.shares.items())]
            self._key = (frozenset(self.dedicated), *shares)
        return self._key

    def is_overused(self, name: str, device: Device | None) -> bool:
        """Return whether claims have more of a device than there is; None: it is not published any more."""
        shares = self.shares.get(name)
        if self.dedicated[name] + (shares is not None) > 1:
            return True
        if shares is None or device is None:
            return False
        known = {capacity: amount for capacity, amount in shares.amounts.items() if capacity in device.capacity}
        return not fits(device, known, {})


class DevicesInUse:
    """The devices that the claims of a cluster have, as facts say, and else as was decided.

    Args:
        claims: the ResourceClaims by ``namespace/name``; the caller changes them in place.
    """

    def __init__(self, claims: Mapping[str, DeviceClaimFact]) -> None:
        self._claims = claims
        self._decided: defaultdict[str, Counter[DeviceClaim]] = defaultdict(Counter)
        """By claim what was decided for it, with the number of pods."""
        self._counted: dict[str, tuple[DeviceResult, ...]] = {}
        """By claim the devices that are counted for it."""
        self._use: defaultdict[PoolName, PoolUse] = defaultdict(PoolUse)
        """Of the pools of which devices are in use."""

    def of_pool(self, pool: PoolName) -> PoolUse | None:
        """Return what is in use of a pool, None: nothing."""
        return self._use.get(pool)

    def decided(self, key: str) -> Iterable[DeviceClaim]:
        """Return what was decided for a claim, the first decision first."""
        return self._decided.get(key, ())

    def decide(self, claim: DeviceClaim, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) what was decided for a claim of a pod; :meth:`count` counts it."""
        decided = self._decided[claim.key]
        decided[claim] += sign
        if not decided[claim]:
            del decided[claim]
        if not decided:
            del self._decided[claim.key]

    def count(self, key: str) -> Iterable[PoolName]:
        """Count the devices of a claim anew; return the pools of those that it had and has, none if they are the same.

        What facts say comes before what was decided.
        """
        fact = self._claims.get(key)
        results = dict.fromkeys(each for claim in self.decided(key) for each in claim.results)
        if fact is not None and fact.allocation is not None:
            results = dict.fromkeys(device_result(each) for each in fact.allocation.devices.results)
        before, after = self._counted.pop(key, ()), tuple(results)
        if after:
            self._counted[key] = after
        if before == after:
            return ()
        for counted, sign in ((before, -1), (after, 1)):
            for each in counted:
                self._add(key, each, sign)
        return dict.fromkeys((each.driver, each.pool) for each in (*before, *after))

    def _add(self, claim: str, result: DeviceResult, sign: int) -> None:
        if not result.admin:
            pool = result.driver, result.pool
            use = self._use[pool]
            use.add(result, sign, claim)
            if not (use.dedicated or use.shares):
                del self._use[pool]


def device_result(result: Result) -> DeviceResult:
    """Return a device that a claim has as it is in decisions."""
    consumed = tuple(sorted((name, str(value)) for name, value in result.consumed_capacity.items()))
    return DeviceResult(
        result.request,
        result.driver,
        result.pool,
        result.device,
        shared=bool(result.share_id),
        consumed=consumed,
        admin=result.admin_access,
    )


def _amounts(consumed: Iterable[tuple[str, Quantity]]) -> Amounts | None:
    """Return what a share consumes, None if an amount cannot be read: then the device counts as wholly in use."""
    try:
        return {name: parse_quantity(value) for name, value in consumed}
    except ValueError:
        return None
