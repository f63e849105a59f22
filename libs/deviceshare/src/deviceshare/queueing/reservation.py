"""Prevents starvation: nodes are reserved for a job that waited too long, until it fits there.

Small pods use freed capacity at once, so a job that needs much capacity at the same time might never start. After
``deviceshare.StarvationSeconds`` (or ``sla-waiting-time``), nodes that the job would fit on if they were empty are
searched, those with the fewest pods first, and reserved for the job. A queue has at most one reservation, no node is
reserved twice, and a job that exceeds its queue's capability or the cluster gets no reservation. After the same time
the nodes are searched again, since pods that never end may run on them. One search runs at a time, and each round
continues it by a bounded amount of work.

Beyond Volcano, whose plugin ``sla`` admits such a job to its queue and sorts it first, but reserves nothing.
"""

from collections import ChainMap
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from math import inf

import msgspec

from deviceshare.allocation import Allocator, Unplaceable
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, NodeFact, PodRequest
from deviceshare.queueing.gangs import Decision, decide, lacks_room
from deviceshare.queueing.group import Group
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.node_search import NodeSearch
from deviceshare.queueing.queues import Queues
from deviceshare.state import PODS

_SEARCHES = 30
"""The most searches for one queue within the time after which a job has waited too long."""
MAX_WORK = 500
"""Units of work (see :meth:`.node_search.NodeSearch.run`) of one round."""
_LISTED_PER_UNIT = 20
"""Nodes that are listed and sorted for one unit of work."""


class Reservation(msgspec.Struct, frozen=True):
    """Nodes reserved for one job since ``since`` (monotonic seconds)."""

    key: GroupKey
    queue: str
    nodes: tuple[str, ...]
    since: float


class Reservations:
    """The reservations by queue."""

    def __init__(self, allocator: Allocator, queues: Queues, conf: SchedulerConf) -> None:
        self._allocator = allocator
        self._queues = queues
        self._of_queue: dict[str, Reservation] = {}
        self.avoided: Collection[str] = ()
        """Nodes that are infeasible in this round as well, but not within :meth:`all_nodes`."""
        self._avoided_now: list[str] = []
        """Those of them that are infeasible at the moment and not reserved."""
        self._next_search: dict[str, float] = {}
        """The earliest next search for a queue, monotonic seconds: a search costs more than a decision."""
        self._search: NodeSearch | None = None
        self._work_left = 0
        """Units of work that are left in this round."""
        self._unplaceable: dict[GroupKey, tuple[Job, int, frozenset[str]]] = {}
        """Jobs that would not fit on empty nodes, with version of the nodes and reserved nodes at the search."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Apply another configuration; drops all reservations."""
        self._after = conf.starvation if conf.waiting_time is None else conf.waiting_time
        self._of_queue.clear()
        self._next_search.clear()
        self._unplaceable.clear()
        self._search = None

    def __iter__(self) -> Iterator[Reservation]:
        return iter(list(self._of_queue.values()))

    def overdue_at(self, job: Job) -> float | None:
        """Return the time at which a job has waited too long, unix seconds; None: never."""
        after = job.may_wait(self._after)
        return job.created + after if after and not job.group.ready else None

    def is_unplaceable(self, job: Job) -> bool:
        """Return whether a search found that a job would not fit even on empty nodes."""
        found = self._unplaceable.get(job.key)
        return found is not None and found[0] is job and found[1:] == (self._queues.nodes_version, self._taken)

    def forget(self, key: GroupKey) -> None:
        """Drop the search results of a job, and end a search for it."""
        self._unplaceable.pop(key, None)
        if self._search is not None and self._search.job.key == key:
            self._search = None

    def is_expired(self, job: Job, now: float) -> bool:
        """Return whether the nodes reserved for a job should be searched again."""
        reservation, overdue = self.of(job.queue), self.overdue_at(job)
        if reservation is None:
            return False
        return overdue is None or now >= reservation.since + max(overdue - job.created, 1.0)

    def of(self, queue: str) -> Reservation | None:
        """Return the reservation of a queue, or None."""
        return self._of_queue.get(queue)

    def next_search_at(self, queue: str) -> float:
        """Return the earliest next search for a queue, monotonic seconds; ``inf`` while it has a reservation."""
        return inf if queue in self._of_queue else self._next_search.get(queue, 0.0)

    def drop(self, queue: str) -> None:
        """Drop the reservation of a queue, if any."""
        self._of_queue.pop(queue, None)

    @property
    def searching(self) -> GroupKey | None:
        """The job for which a search is in progress, or None."""
        return None if self._search is None else self._search.job.key

    def begin_round(self, jobs: Collection[GroupKey]) -> None:
        """Begin a round for these jobs; a search for any other job ends without a result."""
        self._work_left = MAX_WORK
        if self.searching not in jobs:
            self._search = None

    def search(self, job: Job, now: float) -> bool:
        """Search nodes to reserve for a job; return whether the search is complete.

        The next round continues an incomplete search. A search in progress for another job ends without a result.
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
        if self._queues.excess(job.queue, job.group.together) is None:
            taken = {name for each in self._of_queue.values() if each.queue != job.queue for name in each.nodes}
            nodes = [node for node in self._queues.counting.nodes if node.name not in taken and node.ready]
            nodes.sort(key=lambda node: (self._allocator.used_amount(node.name, PODS), node.name))
        # Listing and sorting the nodes costs about as much as adding a part of them to the search.
        self._work_left -= len(nodes) // _LISTED_PER_UNIT
        return NodeSearch(job, nodes, self._allocator.conf, self._queues.nodes_version)

    def _finish(self, search: NodeSearch, now: float) -> None:
        job = search.job
        self.drop(job.queue)
        self._next_search[job.queue] = now + self._after / _SEARCHES
        if not search.found:
            self._unplaceable[job.key] = (job, search.version, self._taken)
        elif all(self._allocator.node(name) is not None for name in search.found):
            self._unplaceable.pop(job.key, None)
            self._of_queue[job.queue] = Reservation(job.key, job.queue, search.found, now)

    @property
    def _taken(self) -> frozenset[str]:
        return frozenset(name for reservation in self._of_queue.values() for name in reservation.nodes)

    @contextmanager
    def enforced(self, *, except_for: GroupKey | None = None) -> Iterator[None]:
        """Make reserved nodes infeasible, except those reserved for the job ``except_for``, and the avoided ones."""
        reserved = [name for each in self._of_queue.values() if each.key != except_for for name in each.nodes]
        self._avoided_now = [name for name in self.avoided if name not in reserved]
        infeasible = [*reserved, *self._avoided_now]
        self._set(infeasible, reserved=True)
        try:
            yield
        finally:
            self._set(infeasible, reserved=False)
            self._avoided_now = []

    @contextmanager
    def all_nodes(self) -> Iterator[None]:
        """Make the avoided nodes feasible that are not reserved."""
        self._set(self._avoided_now, reserved=False)
        try:
            yield
        finally:
            self._set(self._avoided_now, reserved=True)

    def decide(
        self, group: Group, no_room: MutableMapping[PodRequest, Unplaceable], *, borrowing: bool, reasons: bool
    ) -> Decision:
        """Decide a group (:func:`.gangs.decide`) without the nodes to avoid, and with all if it does not fit."""
        if self.avoided:
            # What fits on none of all nodes fits on none of fewer nodes, but not the other way round.
            fewer = ChainMap[PodRequest, Unplaceable]({}, no_room)
            decision = decide(self._allocator, group, self._queues, borrowing=borrowing, no_room=fewer, reasons=False)
            if decision.placed or not (group.mixed or any(lacks_room(why) for _, why in decision.waiting)):
                return decision
        with self.all_nodes():
            return decide(self._allocator, group, self._queues, borrowing=borrowing, no_room=no_room, reasons=reasons)

    def _set(self, nodes: Collection[str], *, reserved: bool) -> None:
        for name in nodes:
            self._allocator.set_reserved(name, reserved=reserved)
