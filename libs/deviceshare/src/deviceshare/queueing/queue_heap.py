"""Heaps of queues whose order changes while queues are served."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from deviceshare.queueing.policies import OrderKey


class CurrentQueueHeap:
    """Queues by their current order keys.

    In hierarchies an allocation in one queue changes the keys of others. ``pop`` therefore recomputes the key of the
    first queue and pushes it back if another queue now comes first.
    """

    def __init__(self, queues: Iterable[str], order: Callable[[str], OrderKey]) -> None:
        self._order = order
        self._heap = [(order(queue), queue) for queue in queues]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, queue: str) -> None:
        """Add a queue."""
        heappush(self._heap, (self._order(queue), queue))

    def pop(self) -> str:
        """Remove and return the first queue."""
        checked = set()
        while True:
            _, queue = heappop(self._heap)
            current = self._order(queue)
            if not self._heap or queue in checked or current <= self._heap[0][0]:
                return queue
            checked.add(queue)
            heappush(self._heap, (current, queue))


class VolcanoQueueHeap:
    """Queues in the order of Volcano's heap: a changed key takes effect only when two queues are compared.

    Source: pkg/scheduler/util/priority_queue.go, which uses Go's container/heap.
    """

    def __init__(self, queues: Iterable[str], order: Callable[[str], OrderKey]) -> None:
        self._order = order
        self._heap: list[str] = []
        for queue in sorted(queues):
            self.push(queue)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, queue: str) -> None:
        """Add a queue."""
        self._heap.append(queue)
        at = len(self._heap) - 1
        while at and self._swap_if_before(at, (at - 1) // 2):
            at = (at - 1) // 2

    def pop(self) -> str:
        """Remove and return the first queue."""
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
