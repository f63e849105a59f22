"""How one shape stands on every row: brought up to date for the rows that have changed."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.best import Best, Order
from deviceshare.kernels.card_selector import CardSelector, better
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import Amounts, CardCharges
from deviceshare.kernels.constants import NEVER
from deviceshare.kernels.scores import NodeScores

Ints = NDArray[np.int64]
Mask = NDArray[np.uint8]


def weighted_score(score: float, weight: float, tie_break_weight: float) -> float:
    """Return what the score of cards counts for a node.

    Volcano rounds it to an integer before it is weighed (plugins/deviceshare/deviceshare.go), and nodes that are equal
    then are equal. ``fine`` is what the exact score counts beside.
    """
    rounded = int(score + 0.5)
    if rounded > score + 0.5:
        rounded -= 1
    value = rounded * weight
    if tie_break_weight != 0.0:
        value += score * tie_break_weight
    return value


class NodeIndex:
    """What one shape is worth on every row (``best``), as of ``seen`` changes.

    Before cards are looked at: ``admitted`` uint8[rows] says which nodes take such a pod at all; ``wanted`` int64[n] is
    taken of the plain resources ``columns``; ``models`` uint8, by the code of a node's model, says which are accepted
    (where ``choosy``).

    ``weight`` and ``fine`` are those of :func:`worth`. ``pickers`` answer for the cards, and each row takes the best
    answer; () where no cards are asked, and every row will do; None where no kernel can tell.
    """

    def __init__(self, order: Order, weight: float, tie_break_weight: float) -> None:
        self.best = Best(order)
        self.seen = -1
        self.weight = weight
        self.tie_break_weight = tie_break_weight
        self.admitted: Mask = np.zeros(0, dtype=np.uint8)
        self.columns: Ints = np.zeros(0, dtype=np.int64)
        self.wanted: Ints = np.zeros(0, dtype=np.int64)
        self.choosy = False
        self.models: Mask = np.zeros(0, dtype=np.uint8)
        self.selectors: tuple[CardSelector, ...] | None = ()
        self.scores: NodeScores | None = None
        """What a node is worth beside its cards, None for nothing."""
        self.score = 0.0
        """Of the last choice."""
        self.facts_version = -1
        """As of how many changes of facts ``admitted`` and ``scores`` know the nodes."""

    def narrow(self, changes: Changes, amounts: Amounts, cards: CardCharges) -> int:
        """Find the rows that have changed, and put aside those that do not take the pod, whatever their cards.

        The others stand first in ``changes.found``; returns how many.
        """
        count = changes.since(self.seen)
        self.seen = changes.now
        left = 0
        for at in range(count):
            row = changes.found[at]
            if (
                self.admitted[row]
                and (not self.choosy or self.models[cards.models[row]])
                and self.suffices(amounts, row)
            ):
                changes.found[left] = row
                # Read here, the memory of many rows is waited for at once.
                changes.keys[left] = self.best.keys[row]
                left += 1
            else:
                self.put(row, NEVER, 0.0)
        return left

    def suffices(self, amounts: Amounts, row: int) -> bool:
        """Return whether a row has what is wanted of plain resources; of -1, which no node has, it has nothing."""
        for at in range(len(self.columns)):
            column = self.columns[at]
            if column < 0 or amounts.allocatable[row, column] - amounts.used[row, column] < self.wanted[at]:
                return False
        return True

    def put(self, row: int, key: float, waste: float) -> None:
        """Say what a row's cards are worth, and what it wastes."""
        if self.scores is not None:
            key = self.scores.enter(row, key)
        self.best.put(row, key, waste)

    def evaluate(self, changes: Changes, count: int, amounts: Amounts) -> None:
        """Ask the pickers about the first ``count`` rows that were found."""
        assert self.selectors is not None
        for at in range(count):
            changes.keys[at] = NEVER if len(self.selectors) else 0.0
            changes.waste[at] = 0.0
        for number in range(len(self.selectors)):
            selector = self.selectors[number]
            selector.answer(changes, count, amounts)
        for at in range(count):
            key = changes.keys[at]
            self.put(
                changes.found[at],
                key if key == NEVER else weighted_score(key, self.weight, self.tie_break_weight),
                changes.waste[at],
            )

    def choose(self, amounts: Amounts, row: int) -> int:
        """Return which picker answers best on a row, -1 where none finds cards. Its answer stays in the picker."""
        assert self.selectors is not None
        chosen = -1
        score = NEVER
        waste = 0.0
        for number in range(len(self.selectors)):
            selector = self.selectors[number]
            if not selector.is_offered(amounts, row) or not selector.pick(row):
                continue
            if better(selector.score(), selector.waste, score, waste):
                chosen = number
                score = selector.score()
                waste = selector.waste
        self.score = score
        return chosen
