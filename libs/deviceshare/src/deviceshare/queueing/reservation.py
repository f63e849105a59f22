"""Nobody starves: for a job that waited too long nodes are kept free, until it fits there.

Small pods take every bit of room that is made, so a job that needs much of it at once might wait for ever. When it has
waited ``deviceshare.StarvationSeconds`` (or ``sla-waiting-time``) the nodes are looked for that it would fit on if they
were empty, those with the fewest pods first, and nobody else is placed there. At most one job of a queue has nodes kept
free, no node is kept free for two, and none is for a job that its queue's capability or the cluster could never serve.
After as long again the nodes are chosen anew, since pods that never end may run on the first ones.
One search runs at a time, and each round continues it by a bounded amount of work.

Beyond Volcano, whose plugin ``sla`` lets such a job into its queue, and puts it first, and leaves the rest to chance.
"""

from collections.abc import Collection, Iterator
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

_LOOKS = 30
"""So often at most nodes are looked for, for a queue, in the time after which a job has waited too long."""
MOST_WORK = 500
"""Units of work (see :meth:`.node_search.NodeSearch.run`) of one round."""
_LISTED_PER_UNIT = 20
"""Nodes that are listed and sorted for one unit of work."""


class Reservation(msgspec.Struct, frozen=True):
    """Nodes that are kept free for one job since a moment (unix seconds)."""

    key: GroupKey
    queue: str
    nodes: tuple[str, ...]
    since: float


class Reservations:
    """Who has nodes kept free, by queue."""

    def __init__(self, allocator: Allocator, queues: Queues, conf: SchedulerConf) -> None:
        self._allocator = allocator
        self._queues = queues
        self._of_queue: dict[str, Reservation] = {}
        self._look_again: dict[str, float] = {}
        """When nodes may be looked for again for somebody of a queue, unix seconds: that costs more than a decision."""
        self._search: NodeSearch | None = None
        self._work_left = 0
        """Units of work that are left in this round."""
        self._hopeless: dict[GroupKey, tuple[Job, int, frozenset[str]]] = {}
        """Jobs that no empty nodes would serve, and of which nodes that is true."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Go by another configuration from now on."""
        self._after = conf.starvation if conf.waiting_time is None else conf.waiting_time
        self._of_queue.clear()
        self._look_again.clear()
        self._hopeless.clear()
        self._search = None

    def __iter__(self) -> Iterator[Reservation]:
        return iter(list(self._of_queue.values()))

    def overdue_at(self, job: Job) -> float | None:
        """Return since when a job has waited too long, unix seconds; None: it never has."""
        after = job.may_wait(self._after)
        return job.created + after if after and not job.group.ready else None

    def is_hopeless(self, job: Job) -> bool:
        """Whether a job was found to fit on no nodes, were they empty."""
        found = self._hopeless.get(job.key)
        return found is not None and found[0] is job and found[1:] == (self._queues.nodes_version, self._taken)

    def forget(self, key: GroupKey) -> None:
        """Forget what was found of a job, and end a search for it."""
        self._hopeless.pop(key, None)
        if self._search is not None and self._search.job.key == key:
            self._search = None

    def old_at(self, reservation: Reservation, job: Job) -> float:
        """Return when a job's nodes should be chosen anew, unix seconds."""
        overdue = self.overdue_at(job)
        return 0.0 if overdue is None else reservation.since + max(overdue - job.created, 1.0)

    def of(self, queue: str) -> Reservation | None:
        """Return the reservation of a queue, None where there is none."""
        return self._of_queue.get(queue)

    def may_plan_at(self, queue: str) -> float:
        """Return when nodes may be looked for, for somebody of a queue; never while some are kept free for it."""
        return inf if queue in self._of_queue else self._look_again.get(queue, 0.0)

    def drop(self, queue: str) -> None:
        """Keep nothing free for a queue any more."""
        self._of_queue.pop(queue, None)

    @property
    def searching(self) -> GroupKey | None:
        """The job for which a search is in progress, None for no job."""
        return None if self._search is None else self._search.job.key

    def begin_round(self, jobs: Collection[GroupKey]) -> None:
        """Allow the work of one more round, for these jobs; a search for another job ends without a result."""
        self._work_left = MOST_WORK
        if self.searching not in jobs:
            self._search = None

    def plan(self, job: Job, now: float) -> bool:
        """Search nodes to keep free for a job; return whether the search is complete.

        If it is not, the next round continues. A search for another job that is in progress ends without a result.
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
        # To list and sort the nodes costs about as much as to add a part of them.
        self._work_left -= len(nodes) // _LISTED_PER_UNIT
        return NodeSearch(job, nodes, self._allocator.conf, self._queues.nodes_version)

    def _finish(self, search: NodeSearch, now: float) -> None:
        job = search.job
        self.drop(job.queue)
        self._look_again[job.queue] = now + self._after / _LOOKS
        if not search.found:
            self._hopeless[job.key] = (job, search.version, self._taken)
        elif all(self._allocator.node(name) is not None for name in search.found):
            self._hopeless.pop(job.key, None)
            self._of_queue[job.queue] = Reservation(job.key, job.queue, search.found, now)

    def _may_have(self, job: Job) -> bool:
        """Return whether the job's minimum is within its queue's bounds, were it alone in the queue."""
        return self._queues.could_have(job.queue, self._queues.asked(job.group.together))

    @property
    def _taken(self) -> frozenset[str]:
        return frozenset(name for reservation in self._of_queue.values() for name in reservation.nodes)

    @contextmanager
    def kept_free(self, *, but_for: GroupKey | None = None) -> Iterator[None]:
        """Let nobody be placed on the nodes that are kept free, or nobody but one job on those of its own."""
        reserved = [name for each in self._of_queue.values() if each.key != but_for for name in each.nodes]
        for name in reserved:
            self._allocator.reserve(name)
        try:
            yield
        finally:
            for name in reserved:
                self._allocator.unreserve(name)
