"""Reservations: nodes reserved for jobs that have waited too long, so that no job starves.

Small pods take all capacity that becomes free, so a job that needs much of it together could wait forever. When it
has waited ``deviceshare.StarvationSeconds`` (or ``sla-waiting-time``), nodes are searched that would fit it if they
were empty, nodes with the fewest pods first, and no other job is placed there. A queue has at most one reservation, a
node is in at most one, and jobs that exceed their queue's capability or the empty cluster get none. After the same
time again the nodes are chosen anew, since pods that never end may run on the first ones. One search runs at a time,
and each round continues it by a bounded amount of work.

Beyond Volcano, whose plugin ``sla`` admits such a job to its queue and puts it first, but reserves nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

import msgspec

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, NodeFact
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.node_search import NodeSearch
from deviceshare.queueing.queues import Queues
from deviceshare.state import PODS

_SEARCHES = 30
"""The most searches for a queue within the time after which a job is overdue."""
MOST_WORK = 500
"""Units of work (see :meth:`.node_search.NodeSearch.run`) of one round."""
_LISTED_PER_UNIT = 20
"""Nodes listed and sorted for one unit of work."""


class Reservation(msgspec.Struct, frozen=True):
    """Nodes reserved for one job; ``since`` is in monotonic seconds."""

    key: GroupKey
    queue: str
    nodes: tuple[str, ...]
    since: float


class Reservations:
    """The reservations, by queue."""

    def __init__(self, allocator: Allocator, queues: Queues, conf: SchedulerConf) -> None:
        self._allocator = allocator
        self._queues = queues
        self._of_queue: dict[str, Reservation] = {}
        self._next_search: dict[str, float] = {}
        """When the next search for a queue may start, monotonic seconds; a search costs more than a decision."""
        self._search: NodeSearch | None = None
        self._work_left = 0
        """Units of work left in this round."""
        self._unschedulable: dict[GroupKey, tuple[Job, int, frozenset[str]]] = {}
        """Jobs that do not fit on empty nodes, with the version of the nodes and the nodes reserved for other jobs."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Apply another configuration: all reservations end."""
        self._after = conf.starvation if conf.waiting_time is None else conf.waiting_time
        self._of_queue.clear()
        self._next_search.clear()
        self._unschedulable.clear()
        self._search = None

    def __iter__(self) -> Iterator[Reservation]:
        return iter(list(self._of_queue.values()))

    def overdue_at(self, job: Job) -> float | None:
        """Return when a job becomes overdue, unix seconds; None: never."""
        after = job.may_wait(self._after)
        return job.created + after if after and not job.group.ready else None

    def is_unschedulable(self, job: Job) -> bool:
        """Return whether the last search found that a job does not fit even on empty nodes."""
        found = self._unschedulable.get(job.key)
        return found is not None and found[0] is job and found[1:] == (self._queues.nodes_version, self._reserved)

    def forget(self, key: GroupKey) -> None:
        """Forget the search result of a job, and end a search for it."""
        self._unschedulable.pop(key, None)
        if self._search is not None and self._search.job.key == key:
            self._search = None

    def drop(self, queue: str) -> None:
        """End the reservation of a queue, if any."""
        self._of_queue.pop(queue, None)

    @property
    def searching(self) -> GroupKey | None:
        """The job for which a search is in progress, None for no job."""
        return None if self._search is None else self._search.job.key

    def plan(self, overdue: Sequence[Job], reserved: Sequence[Job], now: float) -> tuple[float, bool]:
        """Search nodes for overdue jobs, and again for jobs whose reservation is old, within one round's work.

        Args:
            overdue: the overdue jobs that lack capacity, in the order in which they are served.
            reserved: the jobs with a reservation.
            now: monotonic seconds.

        Returns:
            When the search continues without an event, monotonic seconds (inf: never), and whether nodes were released.
        """
        candidates = [*((job, True) for job in reserved if self._is_old(job, now)), *((job, False) for job in overdue)]
        self._work_left = MOST_WORK
        if self.searching not in {job.key for job, _ in candidates}:
            self._search = None
        due, released = inf, False
        # A search that is in progress continues first.
        for job, again in sorted(candidates, key=lambda each: each[0].key != self.searching):
            before = self._of_queue.get(job.queue)
            starts = 0.0 if again else self._may_search_at(job.queue)
            if now < starts:
                due = min(due, starts)
                continue
            if not self._continue_search(job, now):
                return now, released
            after = self._of_queue.get(job.queue)
            if after is None and not again:
                # Jobs that this job kept from borrowing may borrow now.
                due = now
            elif again and (before is None or after is None or after.nodes != before.nodes):
                released = True
        return due, released

    def _is_old(self, job: Job, now: float) -> bool:
        """Return whether the nodes reserved for a job should be chosen again."""
        reservation = self._of_queue.get(job.queue)
        if reservation is None:
            return False
        overdue = self.overdue_at(job)
        return overdue is None or now >= reservation.since + max(overdue - job.created, 1.0)

    def _may_search_at(self, queue: str) -> float:
        """Return when a search for a queue may start, monotonic seconds; inf while the queue has a reservation."""
        return inf if queue in self._of_queue else self._next_search.get(queue, 0.0)

    def _continue_search(self, job: Job, now: float) -> bool:
        """Search nodes to reserve for a job; return whether the search is complete.

        Otherwise the next round continues. A search in progress for another job ends without a result.
        """
        if self._work_left <= 0:
            return False
        search = self._search
        if search is None or search.job is not job:
            search = self._search = self._begin_search(job)
        self._work_left -= search.run(self._work_left)
        if not search.done:
            return False
        self._search = None
        self._finish(search, now)
        return True

    def _begin_search(self, job: Job) -> NodeSearch:
        nodes: list[NodeFact] = []
        if self._may_have(job):
            taken = {name for each in self._of_queue.values() if each.queue != job.queue for name in each.nodes}
            nodes = [node for node in self._queues.counting.nodes if node.name not in taken and node.ready]
            nodes.sort(key=lambda node: (self._allocator.used_amount(node.name, PODS), node.name))
        # Listing and sorting the nodes costs about as much as adding a part of them.
        self._work_left -= len(nodes) // _LISTED_PER_UNIT
        return NodeSearch(job, nodes, self._allocator.conf, self._queues.nodes_version)

    def _finish(self, search: NodeSearch, now: float) -> None:
        job = search.job
        self.drop(job.queue)
        self._next_search[job.queue] = now + self._after / _SEARCHES
        if not search.found:
            self._unschedulable[job.key] = (job, search.version, self._reserved)
        elif all(self._allocator.node(name) is not None for name in search.found):
            self._unschedulable.pop(job.key, None)
            self._of_queue[job.queue] = Reservation(job.key, job.queue, search.found, now)

    def _may_have(self, job: Job) -> bool:
        """Return whether the job's minimum would fit its queue's bounds if the queue had no other pods."""
        return self._queues.could_have(job.queue, self._queues.asked(job.group.together))

    @property
    def _reserved(self) -> frozenset[str]:
        return frozenset(name for reservation in self._of_queue.values() for name in reservation.nodes)

    @contextmanager
    def applied(self, *, but_for: GroupKey | None = None) -> Iterator[None]:
        """Exclude the reserved nodes from placement, except the nodes of one job."""
        reserved = [name for each in self._of_queue.values() if each.key != but_for for name in each.nodes]
        for name in reserved:
            self._allocator.reserve(name)
        try:
            yield
        finally:
            for name in reserved:
                self._allocator.unreserve(name)
