"""Cards that are partitioned into instances of fixed sizes: MIG."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Ints, Mask
from deviceshare.kernels.card_selector import CardSelector
from deviceshare.kernels.constants import CORES_USED, CUT_BITS, INFEASIBLE, KIND, MEMORY_USED, SLOTS_USED, UNPARTITIONED
from deviceshare.kernels.geometry_tables import GeometryTables
from deviceshare.kernels.typical import CARD

_UNITS = 64
"""Under the policy fragmentation waste counts in such parts of the largest card, each as much as this card free."""
_MAX_WASTE = 1 << 20
_MAX_ORDER = 1 << 37
"""Greater differences between cards are not distinguished, so that a key fits into 64 bits."""
_NO_CARDS: Ints = np.zeros((0, 0), dtype=np.int64)


class InstanceSelector(CardSelector):
    """Picks instances with at least ``needed`` int64[kinds] MiB on cards of ``usable`` kinds (bool[kinds]).

    On an unpartitioned card the instance is ``fresh_detail`` int64[kinds] (-1: none), of ``fresh_size`` MiB. ``shares``
    int64[kinds] and ``cores`` are how many shares and cores of a card may be in use; ``alone``: none may.

    With ``careful`` the card with the least waste goes first, of equal cards a partitioned one, unless cards with few
    shares are preferred. Then, and without ``careful``, the policy orders the cards. Without ``careful`` nodes are not
    compared by waste either. Fullness is that of :class:`~.shared.SharedCardSelector`.
    """

    def __init__(
        self, count: int, geometries: GeometryTables, memory: Ints, usable: NDArray[np.bool_], needed: Ints, fresh: Ints
    ) -> None:
        super().__init__(count)
        self.geometries = geometries
        self.memory: Ints = memory
        self.usable: Mask = usable.view(np.uint8)
        self.needed: Ints = needed
        self.fresh_detail: Ints = fresh[0].copy()
        self.fresh_size: Ints = fresh[1].copy()
        self.cut_field = 0
        self.used_field = 0
        self.shares: Ints = needed
        self.cores = 0
        self.alone = False
        self.careful = False
        self.keys_break_ties = True
        self.fitting = True
        self.largest_card = max(int(memory[usable].max(initial=0)), _UNITS)
        """The MiB of the largest card that the container may use."""
        self.takes_amounts = False
        self.first = False
        """Whether it is for an init container: the pod's instances (``own`` int64[rows, columns], a bit each) are used
        again, and shares and cores count as they were before the pod."""
        self.own: Ints = _NO_CARDS
        self.shares_before: Ints = _NO_CARDS
        self.cores_before: Ints = _NO_CARDS
        self.size = 0
        self.lost = 0
        self.reused = False
        """MiB and waste of the instance that :meth:`look` found last, and whether the pod has the instance already."""

    def look(self, row: int, column: int) -> int:
        """Return the encoded instance that a card has for the container, -1 for none."""
        kind = self.cards.block[row, KIND, column]
        cut: int = self.cards.block[row, self.cut_field, column]
        self.reused = False
        if cut < 0:
            return -1
        if cut == 0:
            self.size = self.fresh_size[kind]
            self.lost = self.size - self.needed[kind]
            detail: int = self.fresh_detail[kind]
            return detail
        number = self.geometries.base[kind] + cut
        position = -1
        if self.first:
            position = self.geometries.smallest(number, self.own[row, column], self.needed[kind])
        if position >= 0:
            self.reused = True
        else:
            used = self.cards.block[row, self.used_field, column]
            position = self.geometries.smallest(number, ~used, self.needed[kind])
        if position < 0:
            return -1
        self.size = self.geometries.sizes[number, position]
        self.lost = 0 if self.reused else self.size - self.needed[kind]
        return (cut << CUT_BITS) | position

    def has_room(self, row: int, column: int, kind: int) -> bool:
        """Return whether shares and cores of a card are within their limits."""
        shares = self.cards.block[row, SLOTS_USED, column]
        cores = self.cards.block[row, CORES_USED, column]
        if shares > self.shares[kind] and not self.reused:
            return False
        if self.first:
            shares = self.shares_before[row, column]
            cores = self.cores_before[row, column]
        if cores > self.cores:
            return False
        return not self.alone or shares == 0

    def rank(self, row: int) -> None:
        """Order the cards that have an instance by waste and policy."""
        for column in range(self.cards.block.shape[2]):
            self.keys[column] = INFEASIBLE
            kind = self.cards.block[row, KIND, column]
            if not self.usable[kind]:
                continue
            detail = self.look(row, column)
            if detail < 0 or not self.has_room(row, column, kind):
                continue
            key = self.by_column * column + self.by_memory * self.cards.block[row, MEMORY_USED, column]
            key += self.by_shares * self.cards.block[row, SLOTS_USED, column]
            if self.careful:
                loss = 2 * min(self.lost, _MAX_WASTE)
                if detail >= UNPARTITIONED and self.by_shares <= 0:
                    loss += 1
                key = 2 * _MAX_ORDER * loss + max(1 - _MAX_ORDER, min(key, _MAX_ORDER - 1))
            if self.reused:
                key -= 1 << 61
            self.keys[column] = key
            self.notes[column] = detail
        if self.restricted:
            self.restrict(row)

    def rate(self, row: int) -> None:
        """Score the picked cards, and add up their waste."""
        given = 0.0
        for at in range(self.count):
            column = self.columns[at]
            self.look(row, column)
            # Under the policy fragmentation the waste is part of the score, as far as expected pods could use it.
            if self.careful and not (self.fragmentation is not None and self.scoring_fragmentation):
                self.waste += self.lost
            given += self.size
            if self.fullness != 0.0 and not self.whole_node:
                used: float = self.cards.block[row, MEMORY_USED, column] + self.size
                size: float = max(self.memory[self.cards.block[row, KIND, column]], 1)
                self.add_term(self.fullness * (100.0 * (used / size)))
        if self.fullness != 0.0 and self.whole_node:
            self.add_term(self.fullness * self.node_fullness(row, given))
        if self.emptiness != 0.0:
            self.add_term(self.emptiness * self.node_emptiness(row))

    def charge(self, row: int, column: int, detail: int, sign: int) -> None:
        """Charge an instance: the card keeps its geometry unless this is its only instance."""
        instance = detail & ~UNPARTITIONED
        bit = 1 << (instance & ((1 << CUT_BITS) - 1))
        self.cards.block[row, self.used_field, column] ^= bit
        if detail >= UNPARTITIONED:
            self.cards.block[row, self.cut_field, column] = instance >> CUT_BITS if sign > 0 else 0
        self.cards.block[row, CORES_USED, column] += sign * self.taken_cores
        self.cards.block[row, SLOTS_USED, column] += sign

    def misfit(self, row: int, at: int) -> float:
        """Return how badly an instance fits: its waste that an expected pod could use, then what the card has free."""
        assert self.fragmentation is not None
        column = self.columns[at]
        kind = self.cards.block[row, KIND, column]
        memory = max(self.memory[kind], 1)
        instance = self.details[at] & ~UNPARTITIONED
        number = self.geometries.base[kind] + (instance >> CUT_BITS)
        size = self.geometries.sizes[number, instance & ((1 << CUT_BITS) - 1)]
        # Rounded up, as the amounts of typical pods are.
        part = min((size * CARD + memory - 1) // memory, CARD)
        usable = min(self.fragmentation.usable(row, column, part) * memory // CARD, size)
        waste = 0
        if usable > self.needed[kind]:
            unit = self.largest_card // _UNITS
            waste = (usable - self.needed[kind] + unit // 2) // unit
        used = self.cards.block[row, self.used_field, column]
        free = 0
        for index in range(self.geometries.counts[number]):
            position = self.geometries.ranked[number, index]
            if not (used >> position) & 1:
                free += self.geometries.sizes[number, position]
        share: float = free
        return waste + share / self.largest_card

    def show(self, found: Mask, reused: Mask, free: Ints) -> None:
        """Write what each card of a ``usable`` kind offers, [rows, columns] each.

        ``found``: whether it has an instance; ``reused``: whether the pod has the instance already; ``free``: the MiB
        of the card's largest free instance.
        """
        for row in range(self.cards.block.shape[0]):
            for column in range(self.cards.block.shape[2]):
                kind = self.cards.block[row, KIND, column]
                if self.usable[kind]:
                    found[row, column] = self.look(row, column) >= 0
                    reused[row, column] = self.reused
                    cut = self.cards.block[row, self.cut_field, column]
                    used = self.cards.block[row, self.used_field, column]
                    free[row, column] = self.geometries.free(kind, cut, used)
