"""One container's demand for cards, answered row by row: the base of the kernels of all families."""

from collections.abc import Hashable

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.card_order import CardOrder
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import CardCharges, NodeAmounts
from deviceshare.kernels.constants import CORES_USED, EVERY_NODE, INFEASIBLE, KIND, MEMORY_USED, SLOTS_USED
from deviceshare.kernels.node_fragmentation import NodeFragmentation

_PREFERRED = 1 << 61
_NO_CARDS: Ints = np.zeros((0, 0, 1), dtype=np.int64)
_NO_CAPACITY: Ints = np.zeros(0, dtype=np.int64)
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
        self.order: CardOrder | None = None
        """The same cards in the order of the policy, likewise; None: the cards of a row are compared for each pod."""
        self.held = 0
        self.columns: Ints = np.zeros(count, dtype=np.int64)
        self.details: Ints = np.zeros(count, dtype=np.int64)
        self.keys: Ints = np.zeros(1, dtype=np.int64)
        """int64[columns]: the cards with the smallest keys are picked, of equal ones the first."""
        self.notes: Ints = np.zeros(1, dtype=np.int64)
        """int64[columns]: the detail of each card, should it be picked."""
        self.terms: Floats = np.zeros(count + 2)
        self.scored = 0
        self.waste = 0.0
        self.equivalence_key: Hashable = None
        self.offers = ""
        self.offered = EVERY_NODE
        """The column of ``offers`` among the nodes' own resources, -1 where no node has it."""
        self.fullness = 0.0
        self.emptiness = 0.0
        """What counts for the score of nodes: see :class:`~deviceshare.policies.CardPolicy`."""
        self.by_memory = 0
        self.by_shares = 0
        self.by_column = 0
        """What orders the cards of a node, likewise."""
        self.whole_node = False
        """Whether the score is that of all cards of the row: if the policy for cards is another one than that for
        nodes, the picked cards do not tell how full the row is."""
        self.capacity: Ints = _NO_CAPACITY
        """int64[kinds]: the MiB of a card that ``whole_node`` counts."""
        self.fragmentation: NodeFragmentation | None = None
        """Measures rows for policies that compare by it; None on rows that are not those of the table."""
        self.scoring_fragmentation = False
        """Whether the policy for nodes compares by fragmentation."""
        self.least_fragmented_first = False
        """Whether the policy for cards does, if the row can be measured."""
        self.keys_break_ties = False
        """Whether of equally fragmented cards the one with the smallest key goes first; else the first one."""
        self.takes_amounts = True
        """Whether a pick is charged by ``taken`` MiB and cores alone."""
        self.fitting = False
        """Whether a pod gets a part of fixed size of a card (a MIG instance, a template): then a pick is scored by how
        well the part fits (:meth:`misfit`), and by the part of the fragmentation that is for want of a model or CPU."""
        self.taken: Ints = _NO_CAPACITY
        """int64[kinds]: the MiB that the pod takes of a card."""
        self.taken_cores = 0
        self.taken_cpu = 0
        """The cores that it takes of a card, and its CPU in thousandths of a core."""
        self.steps = 0.0
        """The steps of the pick, if it was chosen by them."""
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
        measured = self.fragmentation is not None and self.least_fragmented_first and self.count == 1
        if not (self.take_least_fragmented(row) if measured else self.take()):
            return False
        self.scored = 0
        self.waste = 0.0
        self.rate(row)
        if self.fragmentation is not None and self.scoring_fragmentation:
            self.terms[0] = self.steps if measured else self.steps_of_pick(row)
            self.scored = max(self.scored, 1)
        return True

    def rank(self, row: int) -> None:
        """Write the ``keys`` of a row's cards, and their ``notes``."""
        raise NotImplementedError

    def rate(self, row: int) -> None:
        """Write the ``terms`` of the pick's score, and its ``waste``."""
        raise NotImplementedError

    def add_term(self, term: float) -> None:
        """Add a term to the score of the pick."""
        self.terms[self.scored] = term
        self.scored += 1

    def node_emptiness(self, row: int) -> float:
        """Return 100 / (1 + shares of all cards of the row)."""
        shares = 0
        for column in range(self.cards.block.shape[2]):
            shares += self.cards.block[row, SLOTS_USED, column]
        return 100.0 / (1 + shares)

    def node_fullness(self, row: int, used: float) -> float:
        """Return 100 x used / memory of all cards of the row; ``used``: the MiB of the pick."""
        size = 0.0
        for column in range(self.cards.block.shape[2]):
            capacity = self.capacity[self.cards.block[row, KIND, column]]
            if capacity > 0:
                size += capacity
                used += self.cards.block[row, MEMORY_USED, column]
        return 100.0 * (used / size) if size > 0.0 else 0.0

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

    def take_least_fragmented(self, row: int) -> bool:
        """Pick the card that leaves the row least fragmented; return whether there is one."""
        assert self.fragmentation is not None
        best = -1
        top = 0.0
        plain = self.takes_amounts and not self.fitting and self.fragmentation.begin(row, self.taken_cpu)
        for column in range(len(self.keys)):
            if self.keys[column] == INFEASIBLE or self.is_known(row, column):
                continue
            if plain:
                taken = self.taken[self.cards.block[row, KIND, column]]
                found = self.fragmentation.steps_if(row, column, taken, self.taken_cores)
            else:
                self.columns[0] = column
                self.details[0] = self.notes[column]
                found = self.steps_of_pick(row)
            level = found == top and self.keys_break_ties and best >= 0 and self.keys[column] < self.keys[best]
            if best < 0 or found > top or level:
                best = column
                top = found
        if best < 0:
            return False
        self.columns[0] = best
        self.details[0] = self.notes[best]
        self.steps = top
        return True

    def is_known(self, row: int, column: int) -> bool:
        """Return whether an earlier card, which goes first, is in the same state."""
        known = False
        for other in range(column):
            known = known or (self.keys[other] != INFEASIBLE and self.is_same(row, column, other))
        return known

    def is_same(self, row: int, column: int, other: int) -> bool:
        """Return whether all fields of two cards are equal."""
        for field in range(self.cards.block.shape[1]):
            if self.cards.block[row, field, column] != self.cards.block[row, field, other]:
                return False
        return True

    def steps_of_pick(self, row: int) -> float:
        """Return by how many steps the pick makes a row less fragmented; of parts of fixed size, how well it fits."""
        assert self.fragmentation is not None
        self.fragmentation.lost_now(row)
        for at in range(self.count):
            self.charge(row, self.columns[at], self.details[at], 1)
        if self.fitting:
            found = self.fragmentation.steps_unserved(row, self.taken_cpu)
            for at in range(self.count):
                found -= self.misfit(row, at)
        else:
            found = self.fragmentation.steps_by(row, self.taken_cpu)
        for at in range(self.count):
            self.charge(row, self.columns[at], self.details[at], -1)
        return found

    def charge(self, row: int, column: int, detail: int, sign: int) -> None:
        """Charge a picked card in the table (``sign`` 1), or release it (-1)."""
        kind = self.cards.block[row, KIND, column]
        self.cards.block[row, MEMORY_USED, column] += sign * self.taken[kind]
        self.cards.block[row, CORES_USED, column] += sign * self.taken_cores
        self.cards.block[row, SLOTS_USED, column] += sign

    def misfit(self, row: int, at: int) -> float:
        """Return how badly a part of fixed size fits, of a picked card that is charged in the table.

        It is what the part has beyond the request and an expected pod could use, with a great weight, and the free
        share of the card.
        """
        return 0.0

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
