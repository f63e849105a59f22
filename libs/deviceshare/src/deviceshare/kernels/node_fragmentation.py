"""The fragmentation of the nodes of a cluster, as they are and as a placement would leave them."""

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import CardCharges, NodeAmounts
from deviceshare.kernels.constants import CORES_USED, KIND, MEMORY_USED, SLOTS_USED
from deviceshare.kernels.free_cards import FreeCards, steps
from deviceshare.kernels.geometry_tables import GeometryTables
from deviceshare.kernels.typical import CARD, Typical

_NO_KINDS: Ints = np.zeros(0, dtype=np.int64)
_NO_TABLE: Ints = np.zeros((1, 1), dtype=np.int64)


class CardParts:
    """What is free of each card, by its kind: ``memory`` MiB, ``cores`` and ``slots``, int64[kinds] each.

    Where ``partitioned`` (uint8[kinds]) the free parts are the free instances of ``geometries``; otherwise it is the
    smaller share of memory and cores, of those that the kind has.
    """

    def __init__(self, memory: Ints, cores: Ints, slots: Ints, partitioned: Mask, geometries: GeometryTables) -> None:
        self.memory, self.cores, self.slots = memory, cores, slots
        self.partitioned: Mask = partitioned
        self.geometries = geometries
        self.cut_field = 0
        self.used_field = 0

    def free_part(self, kind: int, memory_used: int, cores_used: int, slots_used: int) -> int:
        """Return what is free of a card that is not partitioned, in thousandths."""
        memory, cores = self.memory[kind], self.cores[kind]
        if slots_used >= self.slots[kind] or (cores > 0 and cores_used >= cores):
            return 0
        free: int = CARD
        if memory > 0:
            free = max(memory - memory_used, 0) * CARD // memory
        if cores > 0:
            free = min(free, (cores - cores_used) * CARD // cores)
        if memory == 0 and cores == 0 and slots_used > 0:
            free = 0
        return free


class NodeFragmentation:
    """Measures rows. ``of`` int64[rows, columns] is the number of the typical pods of each card, -1: it does not count.

    Cards of one row with different numbers, such as those of two models, are measured each by themselves. ``cpu`` is
    the column of the nodes' CPU. What rows lose as they are is kept until they change.
    """

    def __init__(self, changes: Changes, cards: CardCharges, amounts: NodeAmounts, cpu: int) -> None:
        self.changes, self.cards, self.amounts, self.cpu = changes, cards, amounts, cpu
        none = GeometryTables(_NO_KINDS, _NO_KINDS, _NO_TABLE, _NO_TABLE, _NO_KINDS)
        self.parts = CardParts(_NO_KINDS, _NO_KINDS, _NO_KINDS, np.zeros(0, dtype=np.uint8), none)
        self.typical: list[Typical] = []
        self.of: Ints = _NO_TABLE
        self.seen: Ints = _NO_KINDS
        self.before: Floats = np.zeros(0)
        """float64[rows]: what each row loses, as of its change ``seen``."""
        self.unserved: Floats = np.zeros(0)
        """float64[rows]: the part of it that is for want of a model or of CPU."""
        self.unserved_part = 0.0
        """This part, of the last calculation."""
        self.free = FreeCards(0)
        self.number = -1
        self.left = 0
        """The typical pods, and the free CPU, of the row that :meth:`begin` loaded."""
        self.index: Ints = _NO_KINDS
        """int64[columns]: where each card of the row is in ``free``, -1 if it does not count."""

    def expect(self, typical: list[Typical], of: Ints, parts: CardParts) -> None:
        """Set the typical pods of each card, and forget what rows lose."""
        self.typical, self.of, self.parts = typical, of, parts
        columns = of.shape[1]
        self.free = FreeCards(columns, columns * parts.geometries.sizes.shape[1])
        self.index = np.zeros(columns, dtype=np.int64)
        self.seen = np.full(len(of), -1, dtype=np.int64)
        self.before = np.zeros(len(of))
        self.unserved = np.zeros(len(of))

    def lost_now(self, row: int) -> float:
        """Return what a row loses as it is."""
        if self.seen[row] != self.changes.times[row]:
            self.seen[row] = self.changes.times[row]
            self.before[row] = self.lost(self.cards.block, row, row, 0)
            self.unserved[row] = self.unserved_part
        return float(self.before[row])

    def steps_by(self, row: int, cpu: int) -> float:
        """Return by how many steps a row loses less than it did, now that its table has a further pod's cards.

        ``cpu``: what the pod takes of the CPU, which is not charged yet. The caller called :meth:`lost_now` before it
        charged the cards.
        """
        return steps(self.before[row] - self.lost(self.cards.block, row, row, cpu))

    def steps_unserved(self, row: int, cpu: int) -> float:
        """Return the same for the part that is for want of a model or of CPU."""
        self.lost(self.cards.block, row, row, cpu)
        return steps(self.unserved[row] - self.unserved_part)

    def usable(self, row: int, column: int, size: int) -> int:
        """Return what an expected pod can use at most of a part of a card, both in thousandths of the card."""
        number = self.of[row, column]
        if number < 0:
            return size
        typical = self.typical[number]
        found: int = typical.usable[size]
        return found

    def begin(self, row: int, cpu: int) -> bool:
        """Load a row to try its cards by :meth:`steps_if`; ``cpu`` is what the pod takes.

        Returns whether that is possible: not if the row has cards with different typical pods.
        """
        self.lost_now(row)
        self.number = -1
        for column in range(self.of.shape[1]):
            number = self.of[row, column]
            if number >= 0 and number != self.number:
                if self.number >= 0:
                    return False
                self.number = number
        if self.number < 0:
            return False
        self.left = self.free_cpu(row) - cpu
        self.load(self.cards.block, row, row, self.number)
        typical = self.typical[self.number]
        self.free.count(typical)
        return True

    def steps_if(self, row: int, column: int, memory: int, cores: int) -> float:
        """Return the steps for a pod that takes MiB and cores of a card that is not partitioned."""
        after = self.parts.free_part(
            self.cards.block[row, KIND, column],
            self.cards.block[row, MEMORY_USED, column] + memory,
            self.cards.block[row, CORES_USED, column] + cores,
            self.cards.block[row, SLOTS_USED, column] + 1,
        )
        before = 0
        if self.index[column] >= 0:
            before = self.free.free[self.index[column]]
        else:
            after = 0
        typical = self.typical[self.number]
        return steps(self.before[row] - self.free.lost_if(typical, 0, self.left, before, after))

    def free_cpu(self, row: int) -> int:
        """Return the free CPU of a row, in thousandths of a core."""
        if self.cpu < 0:
            return 0
        return int(self.amounts.allocatable[row, self.cpu] - self.amounts.used[row, self.cpu])

    def steps_of_rows(self, block: Ints, rows: Ints, cpu: int) -> Floats:
        """Return the steps of several rows; ``block`` has copies of them in which the pod's cards are charged."""
        found = np.zeros(len(rows))
        for at in range(len(rows)):
            row = rows[at]
            found[at] = steps(self.lost_now(row) - self.lost(block, at, row, cpu))
        return found

    def lost(self, block: Ints, at: int, row: int, cpu: int) -> float:
        """Return what a row would lose with the cards at ``at`` in a block, and less CPU."""
        left = self.free_cpu(row) - cpu
        lost = 0.0
        unserved = 0.0
        for column in range(block.shape[2]):
            number = self.of[row, column]
            if number >= 0 and self.is_first(row, column):
                self.load(block, at, row, number)
                typical = self.typical[number]
                lost += self.free.lost(typical, 0, left)
                unserved += self.free.unserved
        self.unserved_part = unserved
        return lost

    def is_first(self, row: int, column: int) -> bool:
        """Return whether no earlier card of the row has the same typical pods."""
        first = True
        for other in range(column):
            first = first and self.of[row, other] != self.of[row, column]
        return first

    def load(self, block: Ints, at: int, row: int, number: int) -> None:
        """Write the free parts of a row's cards with these typical pods."""
        self.free.number = 0
        self.free.parts = 0
        for column in range(block.shape[2]):
            if self.of[row, column] != number:
                self.index[column] = -1
                continue
            kind = block[at, KIND, column]
            self.index[column] = self.free.number
            if self.parts.partitioned[kind]:
                self.load_instances(block, at, column)
                continue
            self.free.free[self.free.number] = self.parts.free_part(
                kind, block[at, MEMORY_USED, column], block[at, CORES_USED, column], block[at, SLOTS_USED, column]
            )
            self.free.number += 1

    def load_instances(self, block: Ints, at: int, column: int) -> None:
        """Write the free instances of a card."""
        parts = self.parts
        kind = block[at, KIND, column]
        cut, used = block[at, parts.cut_field, column], block[at, parts.used_field, column]
        memory = max(parts.memory[kind], 1)
        largest = 0
        cores = parts.cores[kind]
        open_ = block[at, SLOTS_USED, column] < parts.slots[kind] and (
            cores == 0 or block[at, CORES_USED, column] < cores
        )
        if open_ and cut == 0:
            largest = CARD
        elif open_ and cut > 0:
            number = parts.geometries.base[kind] + cut
            for index in range(parts.geometries.counts[number] - 1, -1, -1):
                position = parts.geometries.ranked[number, index]
                if (used >> position) & 1:
                    continue
                size = min(parts.geometries.sizes[number, position] * CARD // memory, CARD)
                # The largest one comes first.
                if largest == 0:
                    largest = size
                else:
                    self.free.more[self.free.parts] = size
                    self.free.parts += 1
        self.free.free[self.free.number] = largest
        self.free.number += 1
