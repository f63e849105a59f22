"""Feasibility and score of every row for one class of pods, refreshed for the rows that changed."""

import numpy as np

from deviceshare.kernels.arrays import Ints, Mask
from deviceshare.kernels.best import Best, TieOrder
from deviceshare.kernels.card_selector import CardSelector, better
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import CardCharges, NodeAmounts
from deviceshare.kernels.constants import NEVER
from deviceshare.kernels.node_fragmentation import NodeFragmentation
from deviceshare.kernels.scores import NodeScores

_NO_ROWS: Mask = np.zeros(0, dtype=np.uint8)


def weighted_score(score: float, weight: float, tie_break_weight: float) -> float:
    """Return the weighted score of a node for a score of its cards.

    Volcano rounds the score to an integer before weighting (plugins/deviceshare/deviceshare.go), which makes nodes
    equal. ``tie_break_weight`` is the weight of the exact score, which is added to distinguish such nodes.
    """
    rounded = int(score + 0.5)
    if rounded > score + 0.5:
        rounded -= 1
    value = rounded * weight
    if tie_break_weight != 0.0:
        value += score * tie_break_weight
    return value


class NodeIndex:
    """The score of every row (``best``) for one class of pods, as of change number ``seen``.

    Cards aside, a row is feasible where ``admitted`` uint8[rows] is set, where the ``wanted`` int64[n] amounts of the
    node's own resources ``columns`` are free, and, with ``restricts_models``, where ``models`` (uint8, by the code of
    the node's model) is set.

    ``weight`` and ``tie_break_weight`` are those of :func:`weighted_score`. ``selectors`` pick the cards, and the best
    pick of a row counts. ``()``: the pod requests no cards. ``None``: fall back to the NumPy path.

    Where classes that request different amounts of the resources ``device_columns`` share the index, ``most`` int64[n]
    is the most of each that one of them requests. These amounts decide nothing here: a feasible row with less of one of
    them free is *short*, and while there are short rows, the index does not answer for all of its classes.
    """

    def __init__(self, order: TieOrder, weight: float, tie_break_weight: float) -> None:
        self.best = Best(order)
        self.seen = -1
        self.weight = weight
        self.tie_break_weight = tie_break_weight
        self.admitted: Mask = np.zeros(0, dtype=np.uint8)
        self.columns: Ints = np.zeros(0, dtype=np.int64)
        self.wanted: Ints = np.zeros(0, dtype=np.int64)
        self.device_columns: Ints = np.zeros(0, dtype=np.int64)
        self.most: Ints = np.zeros(0, dtype=np.int64)
        self.short_rows = 0
        """The number of short rows."""
        self.short: Mask = _NO_ROWS
        """uint8[rows]: whether a row is short; empty until one is."""
        self.restricts_models = False
        self.models: Mask = np.zeros(0, dtype=np.uint8)
        self.selectors: tuple[CardSelector, ...] | None = ()
        self.fragmentation: NodeFragmentation | None = None
        """Scores rows for pods that request no cards, by the policy fragmentation; None under other policies."""
        self.taken_cpu = 0
        """The CPU of such a pod, in thousandths of a core."""
        self.scores: NodeScores | None = None
        """The scores of the plugins nodeorder and binpack, None without them."""
        self.score = 0.0
        """The score of the cards that :meth:`choose` picked last."""
        self.facts_version = -1
        """The number of the change of facts as of which ``admitted`` and ``scores`` know the nodes."""

    def narrow(self, changes: Changes, amounts: NodeAmounts, cards: CardCharges) -> int:
        """Find the rows that changed, and mark those as infeasible that are, whatever their cards.

        The others are moved to the front of ``changes.found``; their number is returned.
        """
        count = changes.since(self.seen)
        self.seen = changes.now
        # Read before anything else: the cache misses of all rows overlap.
        for at in range(count):
            changes.keys[at] = self.best.keys[changes.found[at]]
        if self.short_rows:
            for at in range(count):
                self.mark(changes.found[at], False)
        left = 0
        for at in range(count):
            row = changes.found[at]
            if (
                self.admitted[row]
                and (not self.restricts_models or self.models[cards.models[row]])
                and has_free(amounts, row, self.columns, self.wanted)
            ):
                changes.found[left] = row
                left += 1
            else:
                self.put(row, NEVER, 0.0)
        return left

    def cover(self, columns: Ints, asked: Ints, amounts: NodeAmounts) -> None:
        """Answer also for a class that requests these amounts of device resources; names as of its other classes."""
        if len(self.most):
            asked = np.maximum(self.most, asked)
        self.device_columns, self.most = columns, asked
        for row in range(self.best.rows):
            short = self.best.keys[row] != NEVER and not has_free(amounts, row, columns, asked)
            if short or self.short_rows:
                self.mark(row, short)

    def mark(self, row: int, short: bool) -> None:
        """Set whether a row is short."""
        if row >= len(self.short):
            if not short:
                return
            self.short = np.pad(self.short, (0, self.best.rows - len(self.short)))
        if self.short[row] != short:
            self.short[row] = short
            self.short_rows += 1 if short else -1

    def put(self, row: int, key: float, waste: float) -> None:
        """Set the score of a row's cards, and what the row wastes."""
        if self.scores is not None:
            key = self.scores.enter(row, key)
        self.best.put(row, key, waste)

    def evaluate(self, changes: Changes, count: int, amounts: NodeAmounts) -> None:
        """Score the first ``count`` rows of ``changes.found`` by the selectors."""
        assert self.selectors is not None
        for at in range(count):
            changes.keys[at] = NEVER if len(self.selectors) else 0.0
            changes.waste[at] = 0.0
        if self.fragmentation is not None and len(self.selectors) == 0:
            for at in range(count):
                self.fragmentation.lost_now(changes.found[at])
                changes.keys[at] = self.fragmentation.steps_by(changes.found[at], self.taken_cpu)
        for number in range(len(self.selectors)):
            selector = self.selectors[number]
            selector.answer(changes, count, amounts)
        for at in range(count):
            row = changes.found[at]
            key = changes.keys[at]
            self.put(
                row,
                key if key == NEVER else weighted_score(key, self.weight, self.tie_break_weight),
                changes.waste[at],
            )
            if key != NEVER and len(self.most) and not has_free(amounts, row, self.device_columns, self.most):
                self.mark(row, True)

    def choose(self, amounts: NodeAmounts, row: int) -> int:
        """Return which selector has the best pick on a row, -1 for none. The selector keeps the pick."""
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


def has_free(amounts: NodeAmounts, row: int, columns: Ints, asked: Ints) -> bool:
    """Return whether a row has these amounts free; column -1 stands for a resource that no node has."""
    for at in range(len(columns)):
        column = columns[at]
        if column < 0 or amounts.allocatable[row, column] - amounts.used[row, column] < asked[at]:
            return False
    return True
