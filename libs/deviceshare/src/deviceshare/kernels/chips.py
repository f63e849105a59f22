"""Chips that are partitioned by templates or shared, some linked in networks: vNPUs in HAMi mode."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Ints, Mask
from deviceshare.kernels.card_selector import CardSelector
from deviceshare.kernels.constants import CORES_USED, INFEASIBLE, KIND, MEMORY_USED, NO_LIMIT, SLOTS_USED

_STEPS = 1 << 20
"""The resolution of the used part of a chip's memory in a key."""
_ROOM = 2 * _STEPS


class ChipSelector(CardSelector):
    """Picks chips with room: ``sizes`` and ``asked`` are MiB, ``slots`` the number of shares, int64[kinds] each.

    Only chips of ``usable`` kinds (bool[kinds]) are feasible. They are ordered by the used part of their memory, and by
    whether they are used. Fullness is 100 x used / memory of the first chip before the placement, emptiness 100 where
    the first chip is unused; with ``whole_node`` both are those of all chips. Of ``linked`` chips the network with the
    most feasible chips goes first, then the network with the lowest number, unless the network of some chip of the row
    (``of_kind``, bool[kinds]) is not known; a known network adds ``link_score``.
    """

    def __init__(
        self, count: int, sizes: Ints, asked: Ints, slots: Ints, usable: NDArray[np.bool_], of_kind: NDArray[np.bool_]
    ) -> None:
        super().__init__(count)
        self.sizes: Ints = sizes
        self.of_kind: Mask = of_kind.view(np.uint8)
        self.most_memory: Ints = np.where(usable, sizes - asked, -1)
        """int64[kinds]: how much memory of a chip may be in use, -1 where the kind is not usable."""
        self.most_shares: Ints = slots - 1
        self.most_cores: Ints = np.full(len(sizes), NO_LIMIT, dtype=np.int64)
        self.most_ai_cores = NO_LIMIT
        self.most_ai_cpus = NO_LIMIT
        """How many shares, cores, AI cores and AI CPUs of a chip may be in use."""
        self.ai_cores_field = 0
        self.ai_cpus_field = 0
        self.shares_field = 0
        self.unshared = False
        """Whether the chip may have no HAMi-core share."""
        self.only_shared = False
        """Whether the chip may have nothing but HAMi-core shares."""
        self.linked = False
        self.networks: Ints = sizes
        """int64[kinds]: the number of the network, below ``numbers``, -1 where it is not known."""
        self.numbers = 1
        self.link_score = 0.0

    def has_room(self, row: int, column: int) -> bool:
        """Return whether a chip has room for one more container."""
        kind = self.cards.block[row, KIND, column]
        if self.cards.block[row, MEMORY_USED, column] > self.most_memory[kind]:
            return False
        slots = self.cards.block[row, SLOTS_USED, column]
        shares = self.cards.block[row, self.shares_field, column]
        if slots > self.most_shares[kind] or self.cards.block[row, CORES_USED, column] > self.most_cores[kind]:
            return False
        if (self.unshared and shares > 0) or (self.only_shared and slots > shares):
            return False
        if self.cards.block[row, self.ai_cores_field, column] > self.most_ai_cores:
            return False
        return bool(self.cards.block[row, self.ai_cpus_field, column] <= self.most_ai_cpus)

    def rank(self, row: int) -> None:
        """Order the chips that have room by network and policy."""
        known = self.linked
        for column in range(self.cards.block.shape[2]):
            kind = self.cards.block[row, KIND, column]
            if self.of_kind[kind] and self.networks[kind] < 0:
                known = False
            key = INFEASIBLE
            if self.has_room(row, column):
                key = self.by_shares if self.cards.block[row, SLOTS_USED, column] > 0 else 0
                if self.by_memory != 0:
                    key += self.by_memory * int(min(self.share(row, column) * _STEPS, _ROOM - 1))
            self.keys[column] = key
        if self.restricted:
            self.restrict(row)
        if known:
            self.order_networks(row)

    def order_networks(self, row: int) -> None:
        """Order chips by how many of their network are feasible, most first, then by the number of the network."""
        for column in range(self.cards.block.shape[2]):
            count = 0
            network = self.networks[self.cards.block[row, KIND, column]]
            for other in range(self.cards.block.shape[2]):
                count += (self.keys[other] != INFEASIBLE) & (
                    self.networks[self.cards.block[row, KIND, other]] == network
                )
            self.notes[column] = network - count * self.numbers
        for column in range(self.cards.block.shape[2]):
            if self.keys[column] != INFEASIBLE:
                self.keys[column] += self.notes[column] * _ROOM
            self.notes[column] = 0

    def rate(self, row: int) -> None:
        """Score the first chip before the placement, and add to it where its network is known."""
        first = self.columns[0]
        self.scored = 2
        self.terms[0] = 0.0
        self.terms[1] = 0.0
        if self.fullness != 0.0:
            full = self.node_fullness(row, 0.0) if self.whole_node else 100.0 * self.share(row, first)
            self.terms[0] += self.fullness * full
        if self.emptiness != 0.0 and self.whole_node:
            self.terms[0] += self.emptiness * self.node_emptiness(row)
        elif self.emptiness != 0.0 and self.cards.block[row, SLOTS_USED, first] == 0:
            self.terms[0] += self.emptiness * 100.0
        if self.linked and self.networks[self.cards.block[row, KIND, first]] >= 0:
            self.terms[1] = self.link_score

    def misfit(self, row: int, at: int) -> float:
        """Return the free share of a chip's memory: each template wastes the same on every chip of its kind."""
        return 1.0 - self.share(row, self.columns[at])

    def share(self, row: int, column: int) -> float:
        """Return the used part of a chip's memory, 0 to 1."""
        used: float = self.cards.block[row, MEMORY_USED, column]
        size: float = max(self.sizes[self.cards.block[row, KIND, column]], 1)
        return used / size
