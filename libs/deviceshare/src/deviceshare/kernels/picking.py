"""One container's demand for cards, answered row by row: what the kernels of all families have in common."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.uint8]

_PREFERRED = 1 << 61
_NO_MASK: Mask = np.zeros((0, 0), dtype=np.uint8)


class Picker:
    """Picks ``count`` cards of a row: a subclass says by :meth:`pick` which are to be had, and in which order.

    After :meth:`pick` has found enough, ``columns`` and ``details`` int64[count] are the cards; the first ``scored`` of
    ``terms`` (float64) are what the choice scores, to be added in this order; ``waste`` are the MiB that are given
    and not asked.

    ``offers`` is a resource of which a node must have some, '' for none: whoever asks looks at that, since it is not a
    matter of cards.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.held = 0
        self.columns: Ints = np.zeros(count, dtype=np.int64)
        self.details: Ints = np.zeros(count, dtype=np.int64)
        self.keys: Ints = np.zeros(count, dtype=np.int64)
        self.terms: Floats = np.zeros(max(count, 2))
        self.scored = 0
        self.waste = 0.0
        self.offers = ""
        self.offered = -1
        """The column of ``offers`` among the plain resources, -1 where no node has it."""
        self.restricted = False
        self.allowed: Mask = _NO_MASK
        """uint8[rows, columns] where ``restricted``: the cards that the pod accepts."""
        self.preferring = False
        self.preferred: Mask = _NO_MASK
        """uint8[rows, columns] where ``preferring``: the cards that are taken before all others."""

    def pick(self, block: Ints, row: int) -> bool:
        """Pick cards of a row of ``block`` int64[rows, fields, columns]; returns whether there are enough."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin with a row."""
        self.held = 0
        self.scored = 0
        self.waste = 0.0

    def offer(self, row: int, column: int, key: int, detail: int) -> None:
        """Enter a card that is to be had: the smallest keys are taken, of equal ones the first that is offered."""
        if self.preferring and self.preferred[row, column]:
            key -= _PREFERRED
        at = self.held
        if at == self.count:
            if key >= self.keys[at - 1]:
                return
            at -= 1
        else:
            self.held += 1
        while at > 0 and self.keys[at - 1] > key:
            self.keys[at] = self.keys[at - 1]
            self.columns[at] = self.columns[at - 1]
            self.details[at] = self.details[at - 1]
            at -= 1
        self.keys[at] = key
        self.columns[at] = column
        self.details[at] = detail

    def score(self) -> float:
        """Return what the choice scores."""
        total = 0.0
        for at in range(self.scored):
            total += self.terms[at]
        return total

    def chosen(self) -> list[tuple[int, int]]:
        """Return the cards as pairs of column and detail."""
        return [(self.columns[at], self.details[at]) for at in range(self.count)]

    def pick_rows(self, block: Ints, fits: Mask, columns: Ints, details: Ints, terms: Floats, waste: Floats) -> None:
        """Pick on every row, and write the answers where it fits.

        ``fits`` and ``waste`` [rows], ``columns`` and ``details`` [rows, count], ``terms`` as wide as the picker's.
        """
        for row in range(block.shape[0]):
            fits[row] = self.pick(block, row)
            if fits[row]:
                waste[row] = self.waste
                for at in range(self.count):
                    columns[row, at] = self.columns[at]
                    details[row, at] = self.details[at]
                for at in range(self.scored):
                    terms[row, at] = self.terms[at]
