"""The nodes whose pods may go, in the order in which they are looked at."""

from collections.abc import Mapping

import numpy as np

from deviceshare.allocation import NEVER_ENOUGH
from deviceshare.preemption.candidate_table import CandidateTable
from deviceshare.preemption.candidates import EvictionCandidate
from deviceshare.preemption.victims import Cost
from deviceshare.state import Bools, Ints


class CandidateNodes:
    """The nodes with candidates that may go, those first where the fewest of the lowest priorities may be enough.

    Args:
        table: the candidates.
        able: those that may go, bool[slots].
        least: how many have to go on each row at least, int64[rows].
        left: how many more pods each PodDisruptionBudget allows, by the hash of its key.
        several: whether several pods need room: then nodes go first whose pods have many cards each.
    """

    def __init__(
        self, table: CandidateTable, able: Bools, least: Ints, left: Mapping[int, int], *, several: bool
    ) -> None:
        self._table = table
        rows = table.removals.row
        slots = np.flatnonzero(able & (rows >= 0))
        self._slots = slots = slots[np.argsort(rows[slots], kind="stable")]
        first = np.flatnonzero(np.diff(rows[slots], prepend=-1))
        self._first, self._ends = first, np.append(first[1:], len(slots))
        self._order = self.least = self.lowest = first
        """int64[places]: how many pods have to go at least, and the lowest of their priorities."""
        self.every, self.most = len(first), 0
        """How many places there are, and how many pods one of them has at most."""
        self._never: Bools = np.zeros(0, dtype=np.bool_)
        """bool[places]: whether there is no room on it even if all go."""
        if len(first):
            wanted = np.maximum(least[rows[slots[first]]], 1)
            never = wanted >= NEVER_ENOUGH
            wanted = np.where(wanted > self._most_together(left), NEVER_ENOUGH, wanted)
            lowest = np.minimum.reduceat(table.priority[slots], first)
            cost = wanted.astype(np.float64)
            if several:
                cards = np.add.reduceat(table.removals.cards[slots], first)
                per_card = (self._ends - first) / np.maximum(cards, 1)
                cost = np.where(wanted < NEVER_ENOUGH, per_card, cost)
            ties = table.allocator.tie_order[rows[slots[first]]]
            self._order = np.lexsort((ties, lowest, cost))
            self.least, self.lowest = wanted[self._order], lowest[self._order]
            self._never = never[self._order]
            self.most = int((self._ends - first).max())

    def _most_together(self, left: Mapping[int, int]) -> Ints:
        """Return int64[places]: how many of the pods of each place may go together at most, by their budgets."""
        numbers = self._ends - self._first
        if not left:
            return numbers
        of_pods = self._table.budget[self._slots]
        budgets, of_pods = np.unique(of_pods, return_inverse=True)
        pairs, counts = np.unique(
            np.repeat(np.arange(len(numbers)), numbers) * len(budgets) + of_pods, return_counts=True
        )
        unbounded = len(self._slots)
        allowed = np.array([left.get(budget, unbounded) for budget in budgets.tolist()], dtype=np.int64)
        together = np.minimum(counts, allowed[pairs % len(budgets)])
        return np.bincount(pairs // len(budgets), together, len(numbers)).astype(np.int64)

    def __len__(self) -> int:
        """Return how many places may have room for a pod if pods go that may go together; they precede the others."""
        return int(np.count_nonzero(self.least < NEVER_ENOUGH))

    @property
    def lacking(self) -> list[int]:
        """The places that have no room for a pod even if all go that may go."""
        found: list[int] = np.flatnonzero(self._never).tolist()
        return found

    def up_to(self, size: int, cost: Cost | None) -> list[int]:
        """Return the places where so many pods may be enough, and cost less than this; None: whatever they cost."""
        able = self.least <= size
        if cost is not None and size >= cost.pods:
            able &= (size == cost.pods) & (size * self.lowest < cost.priorities)
        found: list[int] = np.flatnonzero(able).tolist()
        return found

    def least_cost(self, place: int, size: int) -> Cost:
        """Return what so many pods of a place cost at least."""
        return Cost(size, size * int(self.lowest[place]))

    def pods(self, place: int) -> list[EvictionCandidate]:
        """Return the candidates of one place that may go."""
        at = self._order[place]
        return self._table.at(self._slots[self._first[at] : self._ends[at]])
