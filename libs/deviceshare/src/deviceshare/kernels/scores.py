"""The scores of nodes by Volcano's plugins ``nodeorder`` and ``binpack``, for one class of pods.

Sources: volcano-sh/volcano pkg/scheduler/plugins/{nodeorder,binpack} and kubernetes/kubernetes
pkg/scheduler/framework/plugins/{noderesources,nodeaffinity,tainttoleration,helper}. Each score is 0 to 100 before
weighting. All except that of binpack are integers, computed by integer divisions.
"""

from math import fabs, sqrt

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.charges import NodeAmounts
from deviceshare.kernels.constants import NEVER, NO_LIMIT

SmallInts = NDArray[np.int32]

_NO_ROWS = np.zeros(0, dtype=np.int64)


class NormalizedScore:
    """A score that is normalized over the feasible nodes: the highest value of a feasible node scores 100.

    With ``reverse`` the highest value scores 0, and the value 0 scores 100. While all values are 0 nothing is stored.
    """

    def __init__(self, weight: int, reverse: bool) -> None:
        self.weight = weight
        self.reverse = reverse
        self.values: SmallInts = np.zeros(0, dtype=np.int32)
        """int32[N]: the value of each node, 0 or more."""
        self.fitting: Mask = np.zeros(0, dtype=np.uint8)
        """uint8[N]: the feasible nodes with a value above 0."""
        self.counts: Ints = np.zeros(1, dtype=np.int64)
        """For each value the number of feasible nodes that have it."""
        self.highest = 0
        """The highest value of a feasible node."""
        self.moved = False
        """Whether ``highest`` changed since :meth:`NodeScores.outdated` was called."""

    def put(self, row: int, value: int, rows: int) -> None:
        """Set the value of a node, as one that is not feasible: call :meth:`enter` next. ``rows`` is their number."""
        self.enter(row, False)
        if value and row >= len(self.values):
            more = rows - len(self.values)
            self.values = np.pad(self.values, (0, more))
            self.fitting = np.pad(self.fitting, (0, more))
        if value >= len(self.counts):
            self.counts = np.pad(self.counts, (0, value))
        if row < len(self.values):
            self.values[row] = value

    def enter(self, row: int, fits: bool) -> None:
        """Set whether a node is feasible."""
        if row >= len(self.values) or self.values[row] == 0 or self.fitting[row] == fits:
            return
        value = self.values[row]
        self.fitting[row] = fits
        self.counts[value] += 1 if fits else -1
        before = self.highest
        self.highest = max(self.highest, value)
        while self.highest > 0 and self.counts[self.highest] == 0:
            self.highest -= 1
        if self.highest != before:
            self.moved = True

    def score(self, row: int) -> int:
        """Return the weighted score of a node."""
        part = 0
        if self.highest > 0 and row < len(self.values):
            part = 100 * self.values[row] // self.highest
        return self.weight * (100 - part if self.reverse else part)


class NodeScores:
    """The scores of all nodes for one class of pods: requests as numbers, resources as columns."""

    def __init__(
        self, amounts: NodeAmounts, preferred_affinity: NormalizedScore, prefer_no_schedule: NormalizedScore
    ) -> None:
        self.amounts = amounts
        """What the nodes have, and what pods request of it."""
        self.preferred_affinity = preferred_affinity
        """The score by preferred node affinity."""
        self.prefer_no_schedule = prefer_no_schedule
        """The score by taints with the effect PreferNoSchedule."""
        self.least = self.most = self.balanced = 0
        """The weights of nodeorder."""
        self.cpu = self.memory = self.more_cpu = self.more_memory = self.gpu = 0
        """Columns; ``more`` is what scores count in addition to requests (:mod:`deviceshare.state.pod_sums`)."""
        self.asks_cpu = self.asks_memory = self.asks_gpu = 0
        self.counts_cpu = self.counts_memory = 0
        """What the pod requests, and what scores count for it."""
        self.pack = 0
        """The weight of binpack."""
        self.binpack_terms: Ints = np.zeros((0, 3), dtype=np.int64)
        """int64[K, 3]: for each resource that the pod requests and that has a weight its column, what the pod requests,
        and the weight."""
        self.weight_sum = 0
        """The sum of the weights in ``binpack_terms``."""

    def enter(self, row: int, key: float) -> float:
        """Set whether a node is feasible (its cards score ``key``, NEVER: infeasible); return its total score."""
        self.preferred_affinity.enter(row, key != NEVER)
        self.prefer_no_schedule.enter(row, key != NEVER)
        return key if key == NEVER else self.total(row, key)

    def enter_rows(self, rows: Ints, keys: Floats) -> None:
        """Call :meth:`enter` for some nodes, and write the total scores into ``keys``."""
        for at in range(len(rows)):
            keys[at] = self.enter(rows[at], keys[at])

    def outdated(self) -> Ints:
        """Return int64[R]: the nodes to enter again since the highest value changed. The next call returns none.

        Nodes with the value 0 are not among them: their score does not depend on the highest value.
        """
        if not (self.preferred_affinity.moved or self.prefer_no_schedule.moved):
            return _NO_ROWS
        self.preferred_affinity.moved = self.prefer_no_schedule.moved = False
        return np.union1d(
            np.flatnonzero(self.preferred_affinity.fitting), np.flatnonzero(self.prefer_no_schedule.fitting)
        )

    def total(self, row: int, devices: float) -> float:
        """Return the total score of a node whose cards score ``devices``, added up in the order of Volcano."""
        return (self.packed(row) + devices) + (
            self.ordered(row) + self.preferred_affinity.score(row) + self.prefer_no_schedule.score(row)
        )

    def packed(self, row: int) -> float:
        """Return binpack's score: how full the node would be; 0 where it lacks one of the resources."""
        score = 0.0
        for at in range(len(self.binpack_terms)):
            column, weight = self.binpack_terms[at, 0], self.binpack_terms[at, 2]
            has = self.amounts.allocatable[row, column]
            # A node without a limit is never full.
            if has == 0 or has >= NO_LIMIT or weight == 0:
                continue
            full = self.amounts.used[row, column] + self.binpack_terms[at, 1]
            if full > has:
                return 0.0
            score += float(full) * weight / has
        if self.weight_sum > 0:
            score /= self.weight_sum
        return score * (100 * self.pack)

    def ordered(self, row: int) -> int:
        """Return nodeorder's scores by what is requested: least and most requested, balanced."""
        has_cpu, has_memory = self.amounts.allocatable[row, self.cpu], self.amounts.allocatable[row, self.memory]
        used_cpu, used_memory = self.amounts.used[row, self.cpu], self.amounts.used[row, self.memory]
        score = 0
        kinds = (1 if has_cpu else 0) + (1 if has_memory else 0)
        if kinds and (self.least or self.most):
            cpu = used_cpu + self.amounts.used[row, self.more_cpu] + self.counts_cpu
            memory = used_memory + self.amounts.used[row, self.more_memory] + self.counts_memory
            score += self.least * ((free_part(cpu, has_cpu) + free_part(memory, has_memory)) // kinds)
            score += self.most * ((full_part(cpu, has_cpu) + full_part(memory, has_memory)) // kinds)
        if self.balanced:
            has_gpu = used_gpu = 0
            if self.asks_gpu:
                has_gpu, used_gpu = self.amounts.allocatable[row, self.gpu], self.amounts.used[row, self.gpu]
            before = balance(used_cpu, has_cpu, used_memory, has_memory, used_gpu, has_gpu)
            cpu, memory, gpu = used_cpu + self.asks_cpu, used_memory + self.asks_memory, used_gpu + self.asks_gpu
            after = balance(cpu, has_cpu, memory, has_memory, gpu, has_gpu)
            score += self.balanced * (50 + (50 + after - before) // 2)
        return score


def free_part(requested: int, has: int) -> int:
    """Return the percentage of a resource that is left, 0 to 100."""
    if has == 0 or requested > has:
        return 0
    return (has - requested) * 100 // has


def full_part(requested: int, has: int) -> int:
    """Return the percentage of a resource that is requested, 0 to 100."""
    if has == 0:
        return 0
    if requested > has:
        return 100
    return requested * 100 // has


def balance(cpu: int, has_cpu: int, memory: int, has_memory: int, gpus: int, has_gpus: int) -> int:
    """Return 100 where pods request the same part of each resource, less the more the parts differ, 50 at least."""
    kinds = 0
    one = two = three = 0.0
    if has_cpu:
        one = min(float(cpu) / has_cpu, 1.0)
        kinds += 1
    if has_memory:
        two = min(float(memory) / has_memory, 1.0)
        kinds += 1
    if has_gpus:
        three = min(float(gpus) / has_gpus, 1.0)
        kinds += 1
    spread = 0.0
    if kinds == 2:
        # The part of a resource that the node does not have is 0.
        spread = fabs((one + two - three if has_gpus else one - two) / 2)
    elif kinds > 2:
        mean = (one + two + three) / 3
        spread = sqrt(((one - mean) * (one - mean) + (two - mean) * (two - mean) + (three - mean) * (three - mean)) / 3)
    return int((1 - spread) * 100)
