"""When to publish why pods wait: the first reason at once, a changed reason at a limited rate.

Reasons contain numbers, and every pod that ends changes the numbers of all pods that wait. Times are monotonic.
"""

from collections.abc import Callable, Mapping

from deviceshare.model import Explanation
from deviceshare.scheduler.records import Beside, PodRecord, beside

INTERVAL = 1.0
"""Seconds between two explanations of one waiting pod, at least."""
MAX_REPEATED = 500
"""Changed explanations in one interval, at most; the first explanation of a pod is never delayed."""


class Reporter:
    """Holds the newest explanation of each waiting pod until it may be published; bounded by the pods."""

    def __init__(self) -> None:
        self._unreported: dict[str, tuple[str, Beside, Callable[[], Explanation]]] = {}
        """By the pod's uid: what it says, and a function that makes the explanation."""
        self._repeated = 0
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._unreported)

    def put(self, explanation: Explanation) -> None:
        """Report an explanation of its pod, in place of one that was not published yet."""
        self.put_later(explanation.uid, explanation.message, beside(explanation), lambda: explanation)

    def put_later(self, uid: str, message: str, others: Beside, make: Callable[[], Explanation]) -> None:
        """Report what an explanation says like :meth:`put`; it is made when it is published."""
        self._unreported[uid] = (message, others, make)

    def drop(self, uid: str) -> None:
        """Report nothing of a pod, which waits no more."""
        self._unreported.pop(uid, None)

    def due(self, pods: Mapping[str, PodRecord]) -> list[float]:
        """Return the times at which explanations may be published."""
        return [self._at(pods[uid]) for uid in self._unreported]

    def take(self, pods: Mapping[str, PodRecord], now: float) -> list[Explanation]:
        """Return the explanations to publish now; what was published before is dropped."""
        if now >= self._since + INTERVAL:
            self._repeated, self._since = 0, now
        reported = []
        for uid, (message, others, make) in list(self._unreported.items()):
            record = pods.get(uid)
            if record is None or not record.waits or (record.reported, record.reported_beside) == (message, others):
                del self._unreported[uid]
            elif now >= self._at(record):
                del self._unreported[uid]
                self._repeated += bool(record.reported)
                record.report(message, now, others)
                record.explained = True
                reported.append(make())
        return reported

    def _at(self, record: PodRecord) -> float:
        if not record.reported:
            return 0.0
        after = max(record.reported_at, self._since) if self._repeated >= MAX_REPEATED else record.reported_at
        return after + INTERVAL
