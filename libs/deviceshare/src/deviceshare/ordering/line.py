"""Those who wait for their turn, by queue and in order.

A heap a queue, of kinds of jobs, and a heap a kind, of jobs. What left the line in between is passed over when it comes
up, so nothing is ever sorted or searched: a change costs the logarithm of the line.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from math import inf

from deviceshare.facts import GroupKey
from deviceshare.gangs import UNEXPLAINED, Reason
from deviceshare.ordering.jobs import Job, Order
from deviceshare.ordering.shortage import Shortage

_FEW = 64
"""Entries that may be left over, beside as many as there are jobs."""


class Kind:
    """Jobs of one queue that are answered alike: in line, or parked for a reason."""

    __slots__ = ("asked_at", "at", "beyond", "entries", "heap", "jobs", "name", "needs", "queue", "told", "why")

    def __init__(self, name: Hashable, queue: str) -> None:
        self.name = name
        self.queue = queue
        self.heap: list[tuple[Order, int, Job]] = []
        self.jobs: dict[GroupKey, Job] = {}
        self.entries: dict[GroupKey, int] = {}
        """The number of each job's entry in the heap that counts."""
        self.at: Order | None = None
        """The place of the entry in the queue's heap that counts; None while the kind is parked."""
        self.why: tuple[Reason, ...] = ()
        """Why it is parked: what the pods of its first job lack."""
        self.told: tuple[Reason, ...] = ()
        """The same as it was asked last, which may be some time ago."""
        self.asked_at = -inf
        """When it was asked last why there is no room, unix seconds."""
        self.needs: list[tuple[str, int, bool]] = []
        """How much of which resources its queue would have to be allowed, and whether beyond what it deserves."""
        self.beyond = False
        """Whether it was parked when its queue could pass what it deserves."""

    @property
    def lacks_room(self) -> bool:
        """Whether it is parked for want of room."""
        return any(not isinstance(reason, Shortage) for reason in self.why)

    @property
    def unexplained(self) -> bool:
        """Whether it is parked and was not asked why."""
        return any(reason is UNEXPLAINED for reason in self.why)

    @property
    def shortages(self) -> list[Shortage]:
        """The bounds of its queue for which it is parked."""
        return [reason for reason in self.why if isinstance(reason, Shortage)]

    def tidy(self) -> None:
        """Drop entries of jobs that left, or stand elsewhere, lest they pile up behind a first one that stays."""
        if len(self.heap) > 2 * len(self.jobs) + _FEW:
            self.heap = [entry for entry in self.heap if self.entries.get(entry[2].key) == entry[1]]
            heapify(self.heap)

    def first(self) -> tuple[Order, Job] | None:
        """Return the first job and its place, None where none is left."""
        while self.heap:
            place, number, job = self.heap[0]
            if self.entries.get(job.key) == number:
                return place, job
            heappop(self.heap)
        return None


class Line:
    """The line of all queues."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}
        self._of_job: dict[GroupKey, Kind] = {}
        self._queues: dict[str, list[tuple[Order, int, Kind]]] = {}
        self._entries = 0
        self._in_line: set[Hashable] = set()
        self.parked: dict[Hashable, Kind] = {}

    def __len__(self) -> int:
        """How many kinds are in line."""
        return len(self._in_line)

    @property
    def queues(self) -> set[str]:
        """The queues that have somebody in line."""
        return {self._kinds[name].queue for name in self._in_line}

    def find(self, key: GroupKey) -> tuple[Kind, Job] | None:
        """Return a job and its kind, None where it is not here."""
        kind = self._of_job.get(key)
        return None if kind is None else (kind, kind.jobs[key])

    def put(self, job: Job, place: Order) -> Kind:
        """Put a job in line, in place of what stood there under its key. Returns its kind, which may be parked."""
        self.discard(job.key)
        name = job.kind
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = Kind(name, job.queue)
            self._in_line.add(name)
        kind.jobs[job.key] = job
        self._of_job[job.key] = kind
        self._stand(kind, job, place)
        return kind

    def _stand(self, kind: Kind, job: Job, place: Order) -> None:
        """Let a job stand somewhere within its kind, and the kind where its first job stands."""
        self._entries += 1
        kind.entries[job.key] = self._entries
        heappush(kind.heap, (place, self._entries, job))
        kind.tidy()
        if kind.name in self._in_line and (kind.at is None or place < kind.at):
            self._enter(kind, place)

    def discard(self, key: GroupKey) -> None:
        """Take a job out of the line, if it is there."""
        kind = self._of_job.pop(key, None)
        if kind is None:
            return
        del kind.jobs[key], kind.entries[key]
        kind.tidy()
        if not kind.jobs:
            self._drop(kind)

    def _drop(self, kind: Kind) -> None:
        del self._kinds[kind.name]
        self._in_line.discard(kind.name)
        self.parked.pop(kind.name, None)
        kind.at = None

    def _enter(self, kind: Kind, place: Order) -> None:
        self._entries += 1
        kind.at = place
        heappush(self._queues.setdefault(kind.queue, []), (place, self._entries, kind))

    def first(self, queue: str) -> tuple[Kind, Job] | None:
        """Return the first job of a queue and its kind, None where nobody is in line. It stays there."""
        heap = self._queues.get(queue, [])
        while heap:
            place, _, kind = heap[0]
            if kind.at is place:
                found = kind.first()
                if found is not None and found[0] is place:
                    return kind, found[1]
                heappop(heap)
                if found is not None:
                    # Who stood first is gone, or was put elsewhere.
                    self._enter(kind, found[0])
            else:
                heappop(heap)
        return None

    @property
    def claimants(self) -> list[Kind]:
        """Those who wait for nothing but room, within what their queue deserves."""
        return [kind for kind in self.parked.values() if not kind.beyond and not kind.needs]

    def move(self, key: GroupKey, place: Callable[[Job], Order]) -> None:
        """Let a job stand where it belongs now, if it is here."""
        kind = self._of_job.get(key)
        if kind is not None:
            job = kind.jobs[key]
            self._stand(kind, job, place(job))

    def park(self, kind: Kind, why: Iterable[Reason], *, beyond: bool) -> None:
        """Let a kind wait for something else than its turn."""
        kind.why, kind.beyond, kind.at = tuple(why), beyond, None
        self._in_line.discard(kind.name)
        self.parked[kind.name] = kind

    def wake(self, kind: Kind) -> None:
        """Put a parked kind back in line."""
        if self.parked.pop(kind.name, None) is None:
            return
        kind.why, kind.needs = (), []
        self._in_line.add(kind.name)
        found = kind.first()
        assert found is not None
        self._enter(kind, found[0])
