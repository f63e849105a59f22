"""One container's demand for cards, answered row by row: the base of the kernels of all families."""

from collections.abc import Hashable

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import CardCharges, NodeAmounts
from deviceshare.kernels.constants import EVERY_NODE, INFEASIBLE, SLOTS_USED

_PREFERRED = 1 << 61
_NO_CARDS: Ints = np.zeros((0, 0, 1), dtype=np.int64)
_NO_MASK: Mask = np.zeros((0, 0), dtype=np.uint8)


class CardSelector:
    """Picks ``count`` cards of a row. A subclass orders the cards (:meth:`rank`) and scores the pick (:meth:`rate`).

    After :meth:`pick` found enough cards, ``columns`` and ``details`` int64[count] are the picked cards, and ``waste``
    the MiB that are given beyond the request. The score is the sum of the first ``scored`` of ``terms`` (float64), in
    this order; higher is better. Each term is 0 to 100 before weighting; see the subclasses.

    Selectors with the same ``equivalence_key`` give the same answers, except for a part of the waste that is the same
    on all rows; None: the selector is equivalent to no other. ``offers`` is a resource of which a node must have some,
    '' for none: the caller checks it, since it is no matter of cards.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.cards = CardCharges(_NO_CARDS)
        """The cards to pick from; the caller sets them."""
        self.held = 0
        self.columns: Ints = np.zeros(count, dtype=np.int64)
        self.details: Ints = np.zeros(count, dtype=np.int64)
        self.keys: Ints = np.zeros(1, dtype=np.int64)
        """int64[columns]: the cards with the smallest keys are picked, of equal ones the first."""
        self.notes: Ints = np.zeros(1, dtype=np.int64)
        """int64[columns]: the detail of each card, should it be picked."""
        self.terms: Floats = np.zeros(max(count, 2))
        self.scored = 0
        self.waste = 0.0
        self.equivalence_key: Hashable = None
        self.offers = ""
        self.offered = EVERY_NODE
        """The column of ``offers`` among the nodes' own resources, -1 where no node has it."""
        self.filling = False
        """Whether the policy is binpack."""
        self.spreading = False
        """Whether the policy is spread."""
        self.restricted = False
        self.allowed: Mask = _NO_MASK
        """uint8[rows, columns] where ``restricted``: the cards that the pod accepts."""
        self.preferring = False
        self.preferred: Mask = _NO_MASK
        """uint8[rows, columns] where ``preferring``: the cards that are picked before all others."""

    def answer(self, changes: Changes, count: int, amounts: NodeAmounts) -> None:
        """Pick on the first ``count`` rows of ``changes.found``, and keep the pick where it is better.

        ``changes.keys`` and ``changes.waste`` are score and waste of the best pick so far, NEVER for none.
        """
        for at in range(count):
            row = changes.found[at]
            if self.is_offered(amounts, row) and self.pick(row):
                score = self.score()
                if better(score, self.waste, changes.keys[at], changes.waste[at]):
                    changes.keys[at] = score
                    changes.waste[at] = self.waste

    def is_offered(self, amounts: NodeAmounts, row: int) -> bool:
        """Return whether a row has some of the resource ``offers``."""
        column = self.offered
        return column == EVERY_NODE or bool(column >= 0 and amounts.allocatable[row, column] > 0)

    def pick(self, row: int) -> bool:
        """Pick cards of a row; return whether there are enough."""
        if len(self.keys) != self.cards.block.shape[2]:
            self.keys = np.zeros(self.cards.block.shape[2], dtype=np.int64)
            self.notes = np.zeros(self.cards.block.shape[2], dtype=np.int64)
        self.rank(row)
        if self.preferring:
            self.prefer(row)
        if not self.take():
            return False
        self.scored = 0
        self.waste = 0.0
        self.rate(row)
        return True

    def rank(self, row: int) -> None:
        """Write the ``keys`` of a row's cards, and their ``notes``."""
        raise NotImplementedError

    def rate(self, row: int) -> None:
        """Write the ``terms`` of the pick's score, and its ``waste``."""
        raise NotImplementedError

    def rate_spread(self, row: int) -> None:
        """Write the score 100 / (1 + shares of all cards of the row)."""
        shares = 0
        for column in range(self.cards.block.shape[2]):
            shares += self.cards.block[row, SLOTS_USED, column]
        self.scored = 1
        self.terms[0] = 100.0 / (1 + shares)

    def restrict(self, row: int) -> None:
        """Mark the cards as infeasible that the pod does not accept."""
        for column in range(len(self.keys)):
            if not self.allowed[row, column]:
                self.keys[column] = INFEASIBLE

    def prefer(self, row: int) -> None:
        """Move the preferred cards before all others."""
        for column in range(len(self.keys)):
            if self.preferred[row, column] and self.keys[column] != INFEASIBLE:
                self.keys[column] -= _PREFERRED

    def take(self) -> bool:
        """Pick the first cards; return whether there are enough."""
        if self.count == 1:
            first = 0
            least = self.keys[0]
            for column in range(1, len(self.keys)):
                if self.keys[column] < least:
                    least = self.keys[column]
                    first = column
            self.columns[0] = first
            self.details[0] = self.notes[first]
            return bool(least != INFEASIBLE)
        self.held = 0
        for column in range(len(self.keys)):
            key = self.keys[column]
            # Most cards are not among the first.
            if key == INFEASIBLE or (self.held == self.count and key >= self.keys[self.columns[self.count - 1]]):
                continue
            at = self.held
            if at == self.count:
                at -= 1
            else:
                self.held += 1
            while at > 0 and self.keys[self.columns[at - 1]] > key:
                self.columns[at] = self.columns[at - 1]
                at -= 1
            self.columns[at] = column
        if self.held < self.count:
            return False
        for at in range(self.count):
            self.details[at] = self.notes[self.columns[at]]
        return True

    def score(self) -> float:
        """Return the score of the pick."""
        total = 0.0
        for at in range(self.scored):
            total += self.terms[at]
        return total

    def chosen(self) -> list[tuple[int, int]]:
        """Return the picked cards as pairs of column and detail."""
        return [(self.columns[at], self.details[at]) for at in range(self.count)]

    def pick_rows(self, fits: Mask, columns: Ints, details: Ints, terms: Floats, waste: Floats) -> None:
        """Pick on every row, and write the picks of the feasible rows.

        ``fits`` and ``waste`` [rows], ``columns`` and ``details`` [rows, count], ``terms`` [rows, terms].
        """
        for row in range(self.cards.block.shape[0]):
            fits[row] = self.pick(row)
            if fits[row]:
                waste[row] = self.waste
                for at in range(self.count):
                    columns[row, at] = self.columns[at]
                    details[row, at] = self.details[at]
                for at in range(self.scored):
                    terms[row, at] = self.terms[at]


def better(score: float, waste: float, than: float, than_waste: float) -> bool:
    """Return whether a pick is better than another one: by higher score, then by less waste."""
    return score > than or (score == than and waste < than_waste)
