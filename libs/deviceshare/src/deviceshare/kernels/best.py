"""The best of all rows, known at any time: a tournament in which a row that changes plays its matches again."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.constants import NEVER

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Order:
    """Which of equal rows goes first: ``ranks`` int64[rows], the lowest. One for all tournaments.

    Ranks may be numbered anew as long as those that rows have among each other stay, but for rows that are put again.
    """

    def __init__(self) -> None:
        self.ranks: Ints = np.zeros(0, dtype=np.int64)


class Best:
    """What each row is worth (``keys`` float64[rows], -inf: not to be had), and the row that is worth most.

    Of equal ones that with the least ``waste`` float64[rows] wins, then the first in ``order``. A row costs O(log rows)
    to change, the best one O(1) to know.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.rows = 0
        self.able = 0
        """How many rows are to be had."""
        self.keys: Floats = np.zeros(0)
        self.wasteful = False
        """Whether ``waste`` is there: most kinds of cards waste nothing."""
        self.waste: Floats = np.zeros(0)
        self.winners: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """int32[rows]: the winner at each inner node of the tournament's tree, 1 is the root. The rows are its leaves:
        the children of i are 2i and 2i + 1, those from ``rows`` on mean row 0 and so on."""

    def grow(self, rows: int) -> None:
        """Make room for so many rows, two at least."""
        keys = np.full(rows, NEVER)
        keys[: self.rows] = np.asarray(self.keys)
        self.keys = keys
        if self.wasteful:
            waste = np.zeros(rows)
            waste[: self.rows] = np.asarray(self.waste)
            self.waste = waste
        self.rows = rows
        self.winners = np.zeros(rows, dtype=np.int32)
        self.play_all()

    def first(self) -> int:
        """Return the best row, -1 where none is to be had."""
        if self.rows == 0:
            return -1
        winner: int = self.winners[1]
        return -1 if self.keys[winner] == NEVER else winner

    def key(self, row: int) -> float:
        """Return what a row is worth."""
        key: float = self.keys[row]
        return key

    def put(self, row: int, key: float, waste: float) -> None:
        """Say what a row is worth, and what it wastes."""
        before = self.keys[row]
        if before == NEVER and key == NEVER:
            return
        self.able += (1 if key != NEVER else 0) - (1 if before != NEVER else 0)
        self.keys[row] = key
        if waste != 0.0 and not self.wasteful:
            self.wasteful = True
            self.waste = np.zeros(self.rows)
        if self.wasteful:
            self.waste[row] = waste
        self.play(row)

    def put_rows(self, rows: Ints, keys: Floats, wastes: Floats) -> None:
        """Say it of some rows."""
        for at in range(len(rows)):
            self.put(rows[at], keys[at], wastes[at])

    def beats(self, one: int, other: int) -> bool:
        """Return whether a row is worth more than another, or precedes it."""
        first: float = self.keys[one]
        second: float = self.keys[other]
        return first > second or (first == second and self.precedes(one, other))

    def precedes(self, one: int, other: int) -> bool:
        """Return whether a row goes before another that is worth the same."""
        if self.wasteful and self.waste[one] != self.waste[other]:
            first: float = self.waste[one]
            second: float = self.waste[other]
            return first < second
        rank: int = self.order.ranks[one]
        behind: int = self.order.ranks[other]
        return rank < behind

    def play(self, row: int) -> None:
        """Play the matches of a row again, up to one that it neither wins nor has won."""
        at = (row + self.rows) >> 1
        while at > 0:
            winner = self.match(at)
            if winner == self.winners[at] and winner != row:
                return
            self.winners[at] = winner
            at >>= 1

    def match(self, at: int) -> int:
        """Return who wins at an inner node."""
        one, other = 2 * at, 2 * at + 1
        one = one - self.rows if one >= self.rows else self.winners[one]
        other = other - self.rows if other >= self.rows else self.winners[other]
        return other if self.beats(other, one) else one

    def play_all(self) -> None:
        """Play every match."""
        for at in range(self.rows - 1, 0, -1):
            self.winners[at] = self.match(at)
