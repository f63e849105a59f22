"""What queues of other replicas claim of their deserved amounts: this replica lends nothing of it to its own queues.

A replica sees the waiting pods of all queues but decides those of its own queues alone. If it borrowed at once what
other queues have not allocated yet, it would be faster than the replicas that decide for them. So what such a queue
deserves and requests stays free as long as its allocations change, and for :data:`WAIT` seconds afterwards: then its
pods fit nowhere. New pods that fit nowhere either prolong nothing. Times are monotonic.
"""

from collections.abc import Callable, Iterator

from deviceshare.scheduler import Scheduler

WAIT = 0.5
"""Seconds without progress after which a queue of another replica claims nothing any more."""


class Borrowing:
    """The queues of other replicas that lack what they deserve. ``owns`` returns whether a queue is this replica's."""

    def __init__(self, scheduler: Scheduler, owns: Callable[[str], bool]) -> None:
        self._scheduler = scheduler
        self._owns = owns
        self._seen: dict[str, tuple[int, float]] = {}
        """Of each such queue: how much it had allocated at the last change, and the time of the change."""
        self._claiming = False

    def update(self, now: float, *, shared: bool) -> None:
        """Tell the queues what others claim; ``shared``: there are other replicas."""
        lacking = {}
        if shared:
            lacking = {name: each for name, each in self._scheduler.lacking().items() if not self._owns(name)}
        self._seen = {name: self._progress(name, allocated, now) for name, (allocated, _) in lacking.items()}
        claimed: dict[str, set[str]] = {}
        for name, (_, resources) in lacking.items():
            if now < self._seen[name][1] + WAIT:
                for resource in resources:
                    claimed.setdefault(resource, set()).add(name)
        self._claiming = bool(claimed)
        self._scheduler.keep_for_others(claimed)

    def _progress(self, name: str, allocated: int, now: float) -> tuple[int, float]:
        before = self._seen.get(name)
        return before if before is not None and before[0] == allocated else (allocated, now)

    def due(self) -> Iterator[float]:
        """Yield when a queue claims nothing any more unless it makes progress."""
        if self._claiming:
            yield max(since for _, since in self._seen.values()) + WAIT
