"""The pace of reports: conditions and Events of pods, statuses of PodGroups and Queues, so many per second."""

from collections.abc import Sequence

from deviceshare_bus.cores.core import Count, Now
from msgspec.structs import replace

from deviceshare_binder.core.cluster_writes import ClusterWrites, RetriedWrite
from deviceshare_binder.core.commands import Annotate, RecordEvent, SetPodCondition, SetStatus
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.reports import Reports

REPORT_INTERVAL = 0.05
"""Seconds between two portions of reports about pods."""
BUSY_SHARE = 4
"""While bindings are in flight a portion of reports is smaller by this factor: bindings have precedence."""
MAX_LAST = 1000
"""Events that are still written when the binder stops; further ones are dropped and counted."""
STATUS_INTERVAL = 0.5
"""Seconds between two portions of statuses."""


def _dated(write: SetStatus | Annotate | RecordEvent, at: float) -> SetStatus | Annotate | RecordEvent:
    match write:
        case SetStatus():
            return replace(write, at=at)
        case RecordEvent(record=record):
            return replace(write, record=record._replace(at=at))
    return write


class Portions:
    """Writes in portions: one begins ``interval`` seconds after every write of the previous one was answered."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._due = float("-inf")
        self._unanswered: set[int] = set()

    def may_begin(self, now: float) -> bool:
        """Return whether a portion may begin at a monotonic time."""
        return not self._unanswered and now >= self._due

    def begin(self, tokens: list[int]) -> None:
        """Begin a portion of these writes."""
        self._unanswered.update(tokens)

    def answered(self, token: int, now: float) -> None:
        """A write was answered for the first time or again."""
        if token in self._unanswered:
            self._unanswered.discard(token)
            self._due = now + self._interval

    def next_due(self) -> float | None:
        """Return the monotonic time of the next portion, None if it depends on answers."""
        return None if self._unanswered else self._due


class Reporting:
    """Writes what ``reports`` and ``groups`` have to report, at most ``per_second`` of each per second."""

    def __init__(self, reports: Reports, groups: Groups, writes: ClusterWrites, per_second: float) -> None:
        self._reports = reports
        self._groups = groups
        self._writes = writes
        self._report_portions = Portions(REPORT_INTERVAL)
        self._status_portions = Portions(STATUS_INTERVAL)
        self._reports_at_once = max(1, int(per_second * REPORT_INTERVAL))
        self._statuses_at_once = max(1, int(per_second * STATUS_INTERVAL))

    def next_due(self, *, owned: bool = True) -> float | None:
        """Return the monotonic time of the next portion, None if there is nothing to report.

        ``owned``: this replica reports why pods wait, and statuses; else only what it has bound.
        """
        waiting = (
            (self._reports.waiting if owned else self._reports.events, self._report_portions.next_due()),
            (self._groups.waiting if owned else 0, self._status_portions.next_due()),
        )
        return min((due for number, due in waiting if number and due is not None), default=None)

    def tick(self, now: Now, *, busy: bool, owned: bool = True) -> None:
        """Begin the portions that are due; ``busy``: bindings are in flight, ``owned`` as in :meth:`next_due`."""
        if self._report_portions.may_begin(now.monotonic):
            portion = max(1, self._reports_at_once // BUSY_SHARE) if busy else self._reports_at_once
            self._begin(self._report_portions, self._reports.take(portion, now.wall, waits=owned))
        if owned and self._status_portions.may_begin(now.monotonic):
            statuses = self._groups.take(self._statuses_at_once)
            self._begin(self._status_portions, [_dated(each, now.wall) for each in statuses])

    def last(self, now: Now) -> list[RecordEvent | Count]:
        """Return the Events that wait, when the binder stops: no other replica knows which pods this one has bound."""
        for each in self._reports.take(self._reports.events, now.wall, waits=False):
            self._writes.add(each)
        events = self._writes.take_events()
        dropped = len(events[MAX_LAST:])
        return [*events[:MAX_LAST], *([Count("cluster_writes_dropped", dropped)] if dropped else [])]

    def _begin(self, portions: Portions, commands: Sequence[RetriedWrite]) -> None:
        tokens = [self._writes.add(command) for command in commands]
        # A write that another one of the portion supersedes is never answered.
        portions.begin([token for token in tokens if self._writes.pending(token)])

    def answered(self, token: int, now: Now) -> None:
        """A write to the cluster was answered."""
        self._report_portions.answered(token, now.monotonic)
        self._status_portions.answered(token, now.monotonic)

    def given_up(self, command: RetriedWrite) -> None:
        """A write was given up: the next decision about the pod is reported though it be the same."""
        match command:
            case SetPodCondition(uid=uid, message=message):
                self._reports.failed(uid, message)
            case RecordEvent(record=record):
                self._reports.failed(record.uid, record.message)
