"""Counts of the pods that arrived, by request: the recent ones have more weight."""

from collections.abc import Callable
from itertools import groupby
from typing import Any, Generic, TypeVar

HALF_LIFE = 40_000
"""After this many arrivals a pod has half of its weight."""
MAX_EXPECTED = 256
"""The most requests that are expected: the most frequent ones."""
MAX_COUNTED = 4096
"""The requests that are kept from one update to the next: the most frequent ones."""
_FIRST, _FACTOR, _SELDOM = 8, 4, 2048
"""Arrivals between two updates: first, by how much the number grows each time, and at most."""
_CHANGE = 0.05
"""The part of all arrivals, by number, by which the expected requests change at least: all scores are computed
again."""
_PRIOR = 4.0
"""The weight of the request that is expected before the first arrivals, in pods."""

K = TypeVar("K")


class Arrivals(Generic[K]):
    """Counts arrivals by request; new requests beyond 8192 are not counted before the next update."""

    def __init__(self) -> None:
        self._weights: dict[K, float] = {}
        self._arrived = 0
        self._interval = _FIRST
        self._shares: dict[K, float] = {}
        """Of the requests that :meth:`frequent` returned last."""

    def expect(self, request: K) -> list[tuple[K, float]]:
        """Expect a request before the first update; return it as :meth:`frequent` does."""
        self._weights[request] = self._weights.get(request, 0.0) + _PRIOR
        self._shares = {request: 1.0}
        return [(request, 1.0)]

    def count(self, request: K | None) -> bool:
        """Count an arrival, None: of a pod that is not to be expected; return whether :meth:`frequent` is due."""
        if request is not None:
            weight = self._weights.get(request, 0.0)
            if weight or len(self._weights) < 2 * MAX_COUNTED:
                self._weights[request] = weight + 1.0
        self._arrived += 1
        return self.due

    @property
    def due(self) -> bool:
        """Whether the expected requests are to be brought up to date."""
        return self._arrived >= self._interval

    def frequent(
        self, order: Callable[[K], Any], tie: Callable[[K], Any] | None = None
    ) -> list[tuple[K, float]] | None:
        """Return the most frequent requests and their weights, and give all of them less weight from now on.

        Equally frequent requests are in their ``order``, and those that are equal in it in the order of ``tie``. None:
        the requests and their shares are nearly those that were returned last.
        """
        if self.due:
            self._interval = min(_FACTOR * self._interval, _SELDOM)
        left = 0.5 ** (self._arrived / HALF_LIFE)
        self._arrived = 0
        found = sorted(self._weights.items(), key=lambda item: (-item[1], order(item[0])))
        if tie is not None:
            runs = groupby(found, key=lambda item: (item[1], order(item[0])))
            found = [item for _, run in runs for item in _sorted(list(run), tie)]
        found = found[:MAX_COUNTED]
        self._weights = {request: weight * left for request, weight in found}
        found = found[:MAX_EXPECTED]
        # Weights become 0 if no pod to be expected arrives for long enough.
        total = sum(weight for _, weight in found) or 1.0
        shares = {request: weight / total for request, weight in found}
        # What has become more frequent is half of all changes: the rest has become less frequent by as much.
        change = sum(max(share - self._shares.get(request, 0.0), 0.0) for request, share in shares.items())
        if change < _CHANGE:
            return None
        self._shares = shares
        return found


def _sorted(items: list[tuple[K, float]], tie: Callable[[K], Any]) -> list[tuple[K, float]]:
    return sorted(items, key=lambda item: tie(item[0])) if len(items) > 1 else items
