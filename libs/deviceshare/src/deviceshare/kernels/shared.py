"""Cards that give any free amount of their memory: hami-core, MPS, gpu-share."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Ints
from deviceshare.kernels.card_selector import CardSelector, better
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import NodeAmounts
from deviceshare.kernels.constants import CORES_USED, EVERY_NODE, INFEASIBLE, KIND, MEMORY_USED, NO_LIMIT, SLOTS_USED


class SharedCardSelector(CardSelector):
    """Picks cards with room: ``sizes`` and ``asked`` are MiB, int64[kinds] each.

    Only cards of ``usable`` kinds (bool[kinds]) are feasible. The fullness of the picked cards is the sum over them of
    100 x used / memory after the placement, 0 to 100 each (``whole_node``: of all cards of the row together).
    """

    def __init__(self, count: int, sizes: Ints, asked: Ints, usable: NDArray[np.bool_]) -> None:
        super().__init__(count)
        self.sizes: Ints = sizes
        self.asked: Ints = asked
        self.most_memory: Ints = np.where(usable, sizes - asked, -1)
        """int64[kinds]: how much memory of a card may be in use, -1 where the kind is not usable."""
        self.most_shares: Ints = np.full(len(sizes), NO_LIMIT, dtype=np.int64)
        self.most_cores = NO_LIMIT
        """How many shares (int64[kinds]) and cores of a card may be in use."""

    def answer(self, changes: Changes, count: int, amounts: NodeAmounts) -> None:
        """Pick on rows; in a loop without calls for a single card scored by its fullness, which most pods request."""
        filling = self.fullness != 0.0 and self.emptiness == 0.0
        plain = filling and not (self.whole_node or self.restricted or self.preferring)
        if self.count > 1 or not plain or self.offered != EVERY_NODE or self.order is None:
            CardSelector.answer(self, changes, count, amounts)
            return
        self.order.refresh(changes, count)
        for at in range(count):
            row = changes.found[at]
            for rank in range(self.order.cards.shape[1]):
                kind = self.order.cards[row, rank, 0]
                if kind == 0:
                    break
                memory_used = self.order.cards[row, rank, 1]
                if self.is_full(kind, memory_used, self.order.cards[row, rank, 2], self.order.cards[row, rank, 3]):
                    continue
                score = self.fullness * self.card_fullness(kind, memory_used)
                if better(score, 0.0, changes.keys[at], changes.waste[at]):
                    changes.keys[at] = score
                    changes.waste[at] = 0.0
                break

    def rank(self, row: int) -> None:
        """Order the cards with room."""
        for column in range(self.cards.block.shape[2]):
            self.keys[column] = self.key(row, column)
        if self.restricted:
            self.restrict(row)

    def key(self, row: int, column: int) -> int:
        """Return the key by which cards are ordered."""
        memory_used = self.cards.block[row, MEMORY_USED, column]
        shares = self.cards.block[row, SLOTS_USED, column]
        full = self.is_full(
            self.cards.block[row, KIND, column], memory_used, self.cards.block[row, CORES_USED, column], shares
        )
        return INFEASIBLE if full else self.by_memory * memory_used + self.by_shares * shares + self.by_column * column

    def is_full(self, kind: int, memory_used: int, cores: int, shares: int) -> bool:
        """Return whether a card has no room."""
        # No branches: which limit is exceeded is hard to predict, and a wrong prediction costs more than all three.
        return bool(
            (memory_used > self.most_memory[kind]) | (shares > self.most_shares[kind]) | (cores > self.most_cores)
        )

    def rate(self, row: int) -> None:
        """Score by how full the cards are after the placement, or by the shares on the row."""
        if self.fullness != 0.0 and self.whole_node:
            used = self.count * self.asked[self.cards.block[row, KIND, self.columns[0]]]
            self.add_term(self.fullness * self.node_fullness(row, used))
        elif self.fullness != 0.0:
            for at in range(self.count):
                kind = self.cards.block[row, KIND, self.columns[at]]
                memory_used = self.cards.block[row, MEMORY_USED, self.columns[at]]
                self.add_term(self.fullness * self.card_fullness(kind, memory_used))
        if self.emptiness != 0.0:
            self.add_term(self.emptiness * self.node_emptiness(row))

    def card_fullness(self, kind: int, memory_used: int) -> float:
        """Return how full a card is after the placement, 0 to 100."""
        used: float = memory_used + self.asked[kind]
        size: float = max(self.sizes[kind], 1)
        return 100.0 * (used / size)
