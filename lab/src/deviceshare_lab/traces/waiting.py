"""The pods that wait for capacity: first come, first served, and pods that do not fit are skipped.

No waiting pod fits anywhere. When a pod ends, only its node has more room: this node alone is tried, for the first
waiting pod of each class, since pods of a class have equal requests.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from deviceshare.kernels.arrays import Ints

from deviceshare_lab.traces.nodes import TraceNodes, TracePods

NO_POD = 1 << 62
"""After every arrival: no pod of a class waits."""


class WaitingPods:
    """Waiting pods by class. They are numbered by arrival; a class is its index in ``classes``."""

    def __init__(self, nodes: TraceNodes, classes: Sequence[TracePods]) -> None:
        self.nodes = nodes
        self.classes = list(classes)
        self.heads: Ints = np.full(len(classes), NO_POD, dtype=np.int64)
        """int64[classes]: the first waiting pod of each class."""
        self.skipped: Ints = np.full(len(classes), -1, dtype=np.int64)
        """int64[classes]: the last search in which the class was found not to fit."""
        self.search = 0
        self.queues: list[deque[int]] = [deque() for _ in classes]
        self.count = 0
        """The pods that wait."""

    def add(self, at: int, pod: int) -> None:
        """Let a pod of a class wait, after all that wait already."""
        queue = self.queues[at]
        if not queue:
            self.heads[at] = pod
        queue.append(pod)
        self.count += 1

    def remove(self, at: int) -> int:
        """Remove the first waiting pod of a class, and return it."""
        queue = self.queues[at]
        pod = queue.popleft()
        self.heads[at] = queue[0] if queue else NO_POD
        self.count -= 1
        return pod

    def begin(self) -> None:
        """Begin a search: a pod has ended."""
        self.search += 1

    def next_fitting(self, row: int) -> int:
        """Return the class whose first pod has waited longest of those that fit on a row; -1 for none.

        During a search the row only gets fuller: a class that does not fit is not tried again.
        """
        best, first = -1, NO_POD
        for at in range(len(self.heads)):
            if self.heads[at] < first and self.skipped[at] != self.search:
                if self.fits(at, row):
                    best, first = at, self.heads[at]
                else:
                    self.skipped[at] = self.search
        return best

    def fits(self, at: int, row: int) -> bool:
        """Return whether a pod of a class fits on a row."""
        pods = self.classes[at]
        return self.nodes.fits(pods, row)
