"""The devices that claims use."""

from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction

from deviceshare.families.dra.capacity import Amounts, fits
from deviceshare.model import DeviceResult, Quantity, parse_quantity
from deviceshare.model.device_objects import Device


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


def _amounts(consumed: Iterable[tuple[str, Quantity]]) -> Amounts | None:
    """Return what a share consumes, None if an amount cannot be read: then the device counts as wholly in use."""
    try:
        return {name: parse_quantity(value) for name, value in consumed}
    except ValueError:
        return None
