"""The nodes of a trace as arrays, and pods with equal requests.

Amounts: CPU in thousandths of a core, memory in MiB, cards in thousandths of a card.
"""

import numpy as np
from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.typical import CARD

WHOLE_CARDS = 1
"""The bit of ``kind`` for one whole card; n cards: shifted by n - 1. A share of a card has the bit 0."""


class TracePods:
    """Pods with equal requests: ``amount`` of each of ``count`` cards; ``count`` 0: a pod without cards.

    ``allowed`` uint8[models]: the models of cards that the pods accept. ``scores`` float64[rows] (-inf: infeasible) and
    ``columns`` int64[rows] (the card of a share) are those of one policy, as of change number ``seen``.
    """

    def __init__(self, cpu: int, memory: int, amount: int, count: int, allowed: Mask) -> None:
        self.cpu, self.memory, self.amount, self.count = cpu, memory, amount, count
        self.allowed = allowed
        self.kind = 0
        """The bit of pods with this number of cards, 0 for pods without cards."""
        if count:
            self.kind = WHOLE_CARDS if amount < CARD else WHOLE_CARDS << count
        self.seen = -1
        self.scores: Floats = np.zeros(0)
        self.columns: Ints = np.zeros(0, dtype=np.int64)


class TraceNodes:
    """Free ``cpu`` and ``memory`` int64[rows], and ``free`` int64[rows, columns] of each card, -1 for no card.

    Also ``cards`` (their number), ``models`` (the code of their model), ``total`` (the sum of ``free``), ``whole`` (the
    number of completely free cards) and ``kinds`` (bits of the pods that are there), int64[rows] each. Of nodes with
    the same score the first row is preferred. ``row`` and ``taken`` are where the last pod was placed: the node, and a
    bit for each of its cards that the pod has.
    """

    def __init__(self, cpu: Ints, memory: Ints, cards: Ints, models: Ints) -> None:
        self.rows = len(cpu)
        self.cpu, self.memory, self.cards, self.models = cpu.copy(), memory.copy(), cards, models
        columns = np.arange(max(int(cards.max(initial=0)), 1))
        self.free: Ints = np.where(columns < cards[:, np.newaxis], CARD, -1).astype(np.int64)
        self.total: Ints = cards * CARD
        self.whole: Ints = cards.copy()
        self.kinds: Ints = np.zeros(self.rows, dtype=np.int64)
        self.pods: Ints = np.zeros((self.rows, self.free.shape[1] + 1), dtype=np.int64)
        """int64[rows, columns + 1]: the pods with a share of a card, with one whole card, with two and so on."""
        self.row = self.taken = 0
        self.changes = Changes()
        self.changes.grow(self.rows)
        for row in reversed(range(self.rows)):
            self.changes.touch(row)

    def fits(self, pods: TracePods, row: int) -> bool:
        """Return whether a pod fits on a row."""
        if self.cpu[row] < pods.cpu or self.memory[row] < pods.memory:
            return False
        if pods.count == 0:
            return True
        if not pods.allowed[self.models[row]]:
            return False
        if pods.amount == CARD:
            return bool(self.whole[row] >= pods.count)
        fitting = 0
        for column in range(self.cards[row]):
            if self.free[row, column] >= pods.amount:
                fitting += 1
        return bool(fitting >= pods.count)

    def tightest(self, row: int, amount: int) -> int:
        """Return the card with the least free amount that suffices, the first of equal ones; -1 for none."""
        best, least = -1, CARD + 1
        for column in range(self.cards[row]):
            free = self.free[row, column]
            if amount <= free < least:
                best, least = column, free
        return best

    def take(self, pods: TracePods, row: int, column: int) -> None:
        """Place a pod: a share on a card, several cards on the first ones with room."""
        taken = 0
        bit = 1
        left = pods.count
        share = pods.count == 1 and pods.amount < CARD
        for at in range(self.cards[row]):
            if share:
                if at == column:
                    taken |= bit
            elif left > 0 and self.free[row, at] >= pods.amount:
                taken |= bit
                left -= 1
            bit <<= 1
        self.take_cards(pods, row, taken)

    def take_cards(self, pods: TracePods, row: int, taken: int) -> None:
        """Place a pod on cards of a row, a bit for each."""
        self.row, self.taken = row, taken
        self.cpu[row] -= pods.cpu
        self.memory[row] -= pods.memory
        self.charge_cards(row, taken, pods.amount)
        if pods.count:
            self.pods[row, self.kind_of(pods)] += 1
            self.kinds[row] |= pods.kind
        self.changes.touch(row)

    def release(self, pods: TracePods, row: int, taken: int) -> None:
        """Remove a pod that was placed on these cards of a row."""
        self.cpu[row] += pods.cpu
        self.memory[row] += pods.memory
        self.charge_cards(row, taken, -pods.amount)
        if pods.count:
            kind = self.kind_of(pods)
            self.pods[row, kind] -= 1
            if self.pods[row, kind] == 0:
                self.kinds[row] ^= pods.kind
        self.changes.touch(row)

    def kind_of(self, pods: TracePods) -> int:
        """Return the number of whole cards of a pod with cards, 0 for shares."""
        return 0 if pods.amount < CARD else pods.count

    def charge_cards(self, row: int, taken: int, amount: int) -> None:
        """Take an amount of some cards of a row, a bit for each."""
        bit = 1
        for at in range(self.cards[row]):
            if taken & bit:
                self.charge(row, at, amount)
            bit <<= 1

    def charge(self, row: int, column: int, amount: int) -> None:
        """Take an amount of a card; a negative amount releases."""
        if self.free[row, column] == CARD:
            self.whole[row] -= 1
        self.free[row, column] -= amount
        if self.free[row, column] == CARD:
            self.whole[row] += 1
        self.total[row] -= amount
