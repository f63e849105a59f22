"""Cards that give any amount of memory that is left: hami-core, MPS, gpu-share."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.constants import (
    CORES_USED,
    HEALTHY,
    MEMORY,
    MEMORY_USED,
    MODE,
    SLOTS,
    SLOTS_USED,
    TYPE,
)  # fmt: skip
from deviceshare.kernels.picking import Picker

Ints = NDArray[np.int64]
Mask = NDArray[np.uint8]

_ALL_CORES = 100


class SharedCards(Picker):
    """Picks healthy cards of one mode whose type is accepted (``types`` uint8 by code) and that have room.

    ``memory`` MiB (0: all of a card) or ``percentage`` of it is asked of each. With ``counted`` the number of those who
    share a card and percent of cores count as well, ``cores`` of which are asked.

    The smallest ``by_memory`` x memory used + ``by_slots`` x shares + ``by_column`` x column goes first. ``filling``
    scores 100 x used / memory after the placement, a card each; ``spreading`` 100 / (1 + shares on the row).
    """

    def __init__(
        self, count: int, mode: int, types: Mask, memory: int, percentage: int, counted: bool, cores: int
    ) -> None:
        super().__init__(count)
        self.mode = mode
        self.types: Mask = types
        self.memory = memory
        self.percentage = percentage
        self.counted = counted
        self.cores = cores
        self.by_memory = 0
        self.by_slots = 0
        self.by_column = 0
        self.filling = False
        self.spreading = False

    def pick(self, block: Ints, row: int) -> bool:
        """Pick by the order, and score."""
        self.start()
        for column in range(block.shape[2]):
            if block[row, MODE, column] != self.mode or not block[row, HEALTHY, column]:
                continue
            if not self.types[block[row, TYPE, column]] or (self.restricted and not self.allowed[row, column]):
                continue
            memory_used = block[row, MEMORY_USED, column]
            if memory_used + self.asked(block[row, MEMORY, column]) > block[row, MEMORY, column]:
                continue
            shares = block[row, SLOTS_USED, column]
            if self.counted and not self.has_room(block, row, column, shares):
                continue
            key = self.by_memory * memory_used + self.by_slots * shares + self.by_column * column
            self.offer(row, column, key, 0)
        if self.held < self.count:
            return False
        if self.filling:
            self.fill(block, row)
        elif self.spreading:
            self.spread(block, row)
        return True

    def asked(self, memory: int) -> int:
        """Return the MiB that are taken of a card of this size."""
        if self.percentage:
            return memory * self.percentage // 100
        return self.memory if self.memory else memory

    def has_room(self, block: Ints, row: int, column: int, shares: int) -> bool:
        """Return whether one more may share a card, and its cores suffice; all of them means nobody beside."""
        if shares >= block[row, SLOTS, column]:
            return False
        cores_used = block[row, CORES_USED, column]
        if cores_used + self.cores > _ALL_CORES or (self.cores == _ALL_CORES and shares > 0):
            return False
        return self.cores != 0 or cores_used < _ALL_CORES

    def fill(self, block: Ints, row: int) -> None:
        """Score how full the cards are then."""
        self.scored = self.count
        for at in range(self.count):
            column = self.columns[at]
            size = block[row, MEMORY, column]
            used: float = block[row, MEMORY_USED, column] + self.asked(size)
            self.terms[at] = 100.0 * (used / max(size, 1))

    def spread(self, block: Ints, row: int) -> None:
        """Score how few share the row's cards."""
        shares = 0
        for column in range(block.shape[2]):
            shares += block[row, SLOTS_USED, column]
        self.scored = 1
        self.terms[0] = 100.0 / (1 + shares)
