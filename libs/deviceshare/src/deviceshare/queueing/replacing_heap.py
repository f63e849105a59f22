"""A heap of named items, of which each has one entry that can be replaced and removed."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")
_MAX_STALE = 64
"""Entries of replaced and removed items that are kept in addition to the number of items."""


class ReplacingHeap(Generic[K, T]):
    """Items by their keys, the smallest first; of equal keys, the one that was put first."""

    def __init__(self) -> None:
        self._heap: list[tuple[K, int, Hashable, T]] = []
        self._entries: dict[Hashable, int] = {}
        """The number of each item's entry in the heap."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, name: Hashable, key: K, item: T) -> None:
        """Add an item, in place of the one with its name."""
        self._count += 1
        self._entries[name] = self._count
        heappush(self._heap, (key, self._count, name, item))
        self._compact()

    def discard(self, name: Hashable) -> bool:
        """Remove an item; return whether it was present."""
        present = self._entries.pop(name, None) is not None
        self._compact()
        return present

    def first(self) -> tuple[K, T] | None:
        """Return key and item of the first one, or None."""
        while self._heap:
            key, number, name, item = self._heap[0]
            if self._entries.get(name) == number:
                return key, item
            heappop(self._heap)
        return None

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _MAX_STALE:
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapify(self._heap)
