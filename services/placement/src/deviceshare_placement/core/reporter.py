"""When to tell why pods wait: the first reason at once, a changed one not too often.

A reason holds numbers, and with every pod that ends the numbers of all that wait change.
"""

from collections.abc import Callable, Mapping

from deviceshare.model import Explanation

from deviceshare_placement.core.records import PodRecord

INTERVAL = 1.0
"""Seconds between two explanations of one waiting pod, at least."""
MOST_RETOLD = 500
"""Changed explanations in one interval, at most; a first one is never held back."""


class Reporter:
    """Holds the newest explanation of each waiting pod until it may be told."""

    def __init__(self) -> None:
        self._untold: dict[str, tuple[str, Callable[[], Explanation]]] = {}
        """By the pod's uid: the message, and what makes the explanation."""
        self._retold = 0
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._untold)

    def put(self, explanation: Explanation) -> None:
        """Tell this of its pod, in place of what was not told yet."""
        self.put_later(explanation.uid, explanation.message, lambda: explanation)

    def put_later(self, uid: str, message: str, make: Callable[[], Explanation]) -> None:
        """Tell this of a pod, in place of what was not told yet; it is made when it is told."""
        self._untold[uid] = (message, make)

    def drop(self, uid: str) -> None:
        """Tell nothing of a pod: it waits no more."""
        self._untold.pop(uid, None)

    def due(self, pods: Mapping[str, PodRecord]) -> list[float]:
        """Return when something may be told, unix seconds."""
        return [self._at(pods[uid]) for uid in self._untold]

    def take(self, pods: Mapping[str, PodRecord], now: float) -> list[Explanation]:
        """Return what is to be told now; what is no news is dropped."""
        if now >= self._since + INTERVAL:
            self._retold, self._since = 0, now
        reported = []
        for uid, (message, make) in list(self._untold.items()):
            record = pods.get(uid)
            if record is None or not record.waits or record.reported == message:
                del self._untold[uid]
            elif now >= self._at(record):
                del self._untold[uid]
                self._retold += bool(record.reported)
                record.report(message, now)
                reported.append(make())
        return reported

    def _at(self, record: PodRecord) -> float:
        if not record.reported:
            return 0.0
        after = max(record.told_at, self._since) if self._retold >= MOST_RETOLD else record.told_at
        return after + INTERVAL
