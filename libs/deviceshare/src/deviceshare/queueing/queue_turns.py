"""The next queue to serve, by places that change while queues are served."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Protocol

from deviceshare.queueing.queue_order import Place


class Turns(Protocol):
    """A priority queue of queues."""

    def __bool__(self) -> bool:
        """Return whether it holds any."""

    def push(self, queue: str) -> None:
        """Put a queue in."""

    def pop(self) -> str:
        """Take out the first queue."""


class LatestTurns:
    """Queues by their current places.

    In hierarchies what one queue is given changes the places of others as well: the place of the first is computed
    again when it is taken out, and the queue goes back if another one comes before it now.
    """

    def __init__(self, queues: Iterable[str], order: Callable[[str], Place]) -> None:
        self._order = order
        self._heap = [(order(queue), queue) for queue in queues]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, queue: str) -> None:
        """Put a queue in."""
        heappush(self._heap, (self._order(queue), queue))

    def pop(self) -> str:
        """Take out the first queue."""
        looked_at = set()
        while True:
            _, queue = heappop(self._heap)
            now = self._order(queue)
            if not self._heap or queue in looked_at or now <= self._heap[0][0]:
                return queue
            looked_at.add(queue)
            heappush(self._heap, (now, queue))


class VolcanoTurns:
    """Queues in the order of Volcano's heap: a place that changed has an effect only when two queues are compared.

    Source: pkg/scheduler/util/priority_queue.go, which is a heap as Go's container/heap keeps it.
    """

    def __init__(self, queues: Iterable[str], order: Callable[[str], Place]) -> None:
        self._order = order
        self._heap: list[str] = []
        for queue in sorted(queues):
            self.push(queue)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, queue: str) -> None:
        """Put a queue in."""
        self._heap.append(queue)
        at = len(self._heap) - 1
        while at and self._swap_if_before(at, (at - 1) // 2):
            at = (at - 1) // 2

    def pop(self) -> str:
        """Take out the first queue."""
        heap = self._heap
        first, heap[0] = heap[0], heap[-1]
        heap.pop()
        at = 0
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and self._order(heap[child + 1]) < self._order(heap[child]):
                child += 1
            if not self._swap_if_before(child, at):
                break
            at = child
        return first

    def _swap_if_before(self, one: int, other: int) -> bool:
        heap = self._heap
        if not self._order(heap[one]) < self._order(heap[other]):
            return False
        heap[one], heap[other] = heap[other], heap[one]
        return True
