"""Best fit: which of the devices that a claim can have it gets, and how good they are for a node."""

from collections.abc import Mapping, Sequence

import msgspec

from deviceshare.families.dra.layout import Layout, LayoutDevice, Taken
from deviceshare.policies import CardPolicy

Key = tuple[float, ...]


class DeviceOrder(msgspec.Struct, frozen=True):
    """How the devices of a node are compared, and nodes scored.

    Those without binding conditions go first; of them the devices that make the fewest others impossible, weighed by
    how large these are; of equal ones the least capable, then by ``fullness``, then those that are near the devices
    that were chosen. A node scores ``packed`` x (100 for one without free devices) + ``kept`` x (100 if nothing becomes
    impossible but what is given).
    """

    sorts: bool = False
    """Whether devices are compared at all; if not, the first ones are given, as by kube-scheduler."""
    fullness: float = 0.0
    """1: what is used most goes first, -1: what is used least, 0: no matter."""
    packed: float = 0.0
    kept: float = 0.0

    def key(
        self,
        layout: Layout,
        device: LayoutDevice,
        before: Mapping[int, int],
        after: Sequence[tuple[int, int]],
        chosen: Sequence[LayoutDevice],
    ) -> Key:
        """Return the key of a device: the smallest one is the best.

        Args:
            layout: the devices of the node.
            device: the device.
            before: what is left of each counter set.
            after: what would be left of those of the device.
            chosen: the devices that were chosen.
        """
        lost = left = 0.0
        for at, rest in after:
            counters = layout.sets[at]
            left += counters.room(rest)
            lost += counters.room(before[at]) - counters.room(rest)
        far = sum(device.root != each.root for each in chosen)
        binds = bool(device.candidate.device.binding_conditions)
        return (binds, round(lost, 9), device.size, round(self.fullness * left, 9), far)

    def score(self, layout: Layout, taken: Taken, given: Sequence[LayoutDevice]) -> float:
        """Return what a node scores if some devices are given, 0 to 100."""
        if not (self.packed or self.kept) or not given:
            return 0.0
        before = taken.left
        after = dict(before)
        # As in the search, a shared device consumes its counters with its first share.
        for device in {device.number: device for device in given if device.number not in taken.shares}.values():
            for at, need in device.uses:
                after[at] -= need
        touched = {at for device in given for at, _ in device.uses}
        lost = sum(layout.sets[at].room(before[at]) - layout.sets[at].room(after[at]) for at in touched)
        used, total = 0.0, 0
        for pool in {device.pool for device in given}:
            if sets := layout.sets_of.get(pool):
                used += sum(1.0 - layout.sets[at].room(after[at]) for at in sets)
                total += len(sets)
            else:
                numbers = [device.number for device in layout.devices if device.pool == pool]
                taken_there = taken.devices | taken.shares.keys() | {device.number for device in given}
                used += sum(number in taken_there for number in numbers)
                total += len(numbers)
        full = 100.0 * used / total
        packed = self.packed * full if self.packed >= 0.0 else -self.packed * (100.0 - full)
        return packed + self.kept * 100.0 * (1.0 - lost / max(1, len(touched)))


NO_ORDER = DeviceOrder()


def device_order(cards: CardPolicy, nodes: CardPolicy) -> DeviceOrder:
    """Return the order of devices by the policies for the cards of a node and for nodes."""
    fullness = -float(cards.by_memory or cards.by_shares) or 0.0
    return DeviceOrder(
        sorts=bool(cards.name),
        fullness=0.0 if cards.fragmentation else fullness,
        packed=nodes.fullness / 2 - nodes.emptiness,
        kept=nodes.fullness / 2 + float(nodes.fragmentation),
    )
