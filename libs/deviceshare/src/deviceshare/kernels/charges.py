"""What pods use: of cards (``block``), and of the nodes' own resources (``used`` of ``allocatable``)."""

import numpy as np

from deviceshare.kernels.arrays import Ints
from deviceshare.kernels.constants import CORES_USED, MEMORY_USED, SLOTS_USED

_NO_MODELS: Ints = np.zeros(0, dtype=np.int64)


class CardCharges:
    """Adds to the used memory, cores and slots of single cards of ``block`` int64[rows, fields, columns]."""

    def __init__(self, block: Ints) -> None:
        self.block: Ints = block
        self.models: Ints = _NO_MODELS
        """int64[rows]: the code of the model of each node's whole devices."""

    def add(self, row: int, column: int, memory: int, cores: int, slots: int) -> None:
        """Add these amounts to what is used; negative amounts release."""
        self.block[row, MEMORY_USED, column] += memory
        self.block[row, CORES_USED, column] += cores
        self.block[row, SLOTS_USED, column] += slots

    def set_usage(self, row: int, column: int, memory: int, cores: int, slots: int) -> None:
        """Overwrite what is used."""
        self.block[row, MEMORY_USED, column] = memory
        self.block[row, CORES_USED, column] = cores
        self.block[row, SLOTS_USED, column] = slots

    def put(self, row: int, field: int, column: int, value: int) -> None:
        """Write one field of a card."""
        self.block[row, field, column] = value


class NodeAmounts:
    """The nodes' own resources: what is allocatable and what is used, both int64[rows, resources]."""

    def __init__(self, allocatable: Ints, used: Ints) -> None:
        self.allocatable: Ints = allocatable
        self.used: Ints = used

    def add(self, row: int, column: int, amount: int) -> None:
        """Add an amount to what is used of a resource; a negative amount releases."""
        self.used[row, column] += amount
