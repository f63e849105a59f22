"""The action ``enqueue``: admits PodGroups to their queues by their minimum resources.

Source: Volcano pkg/scheduler/actions/enqueue, and JobEnqueueable of pkg/scheduler/plugins/{proportion,capacity,
overcommit,sla}. A plugin that rejects a group is final; a tier in which a plugin permits it and none rejects it admits
the group without asking later tiers.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, Resources
from deviceshare.queueing.jobs import Job, JobOrder, JobOrderKey
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.shortage import Shortage

ENQUEUE = "enqueue"
_PLUGINS = ("proportion", "capacity", "overcommit", "sla")


class Applicant(msgspec.Struct, frozen=True):
    """A group that waits for admission, and its minimum resources (None: admit without a check)."""

    job: Job
    needs: Resources | None = None
    reserved: Resources | None = None
    """Resources committed to it on admission: ``needs`` without the requests of gated pods; None: all of ``needs``."""


class Admissions(msgspec.Struct, frozen=True):
    """The admitted groups, and the rejected groups with the reason."""

    admitted: tuple[Applicant, ...] = ()
    rejected: tuple[tuple[Applicant, Shortage], ...] = ()


class EnqueueAction:
    """The groups that wait for admission to their queues."""

    def __init__(self, queues: Queues, conf: SchedulerConf) -> None:
        self._queues = queues
        self._applicants: dict[GroupKey, Applicant] = {}
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Apply another configuration."""
        self._order = JobOrder(conf)
        self._enabled = ENQUEUE in conf.actions
        self._factor = conf.overcommit
        self._waiting_time = conf.waiting_time
        self._tiers = [
            [plugin.name for plugin in tier if plugin.name in _PLUGINS and "JobEnqueued" not in plugin.off]
            for tier in conf.tiers
        ]

    def put(self, applicant: Applicant) -> None:
        """Add or update a group."""
        self._applicants[applicant.job.key] = applicant

    def discard(self, key: GroupKey) -> None:
        """Remove a group, if present."""
        self._applicants.pop(key, None)

    def due(self, now: float) -> list[float]:
        """Return when the plugin ``sla`` will admit waiting groups regardless of resources, unix seconds."""
        if not any("sla" in tier for tier in self._tiers):
            return []
        waiting = [(each.job, each.job.may_wait(self._waiting_time)) for each in self._applicants.values()]
        return [job.created + most for job, most in waiting if most is not None and job.created + most > now]

    def decide(self, now: float) -> Admissions:
        """Admit the groups that fit, in the order of queues and jobs."""
        if not self._applicants:
            return Admissions()
        for applicant in self._applicants.values():
            # Creates the accounts of unknown queues, so that refresh() computes their bounds.
            self._queues.account(applicant.job.queue)
        self._queues.refresh()
        admitted: list[Applicant] = []
        rejected: list[tuple[Applicant, Shortage]] = []
        waiting: dict[str, list[tuple[JobOrderKey, Applicant]]] = {}
        for applicant in self._applicants.values():
            waiting.setdefault(applicant.job.queue, []).append((self._order.key(applicant.job, 0.0), applicant))
        for each in waiting.values():
            each.sort(key=lambda found: found[0], reverse=True)
        heap = [(self._queues.order(queue), queue) for queue in waiting]
        heapify(heap)
        committed = self._queues.committed() if any("overcommit" in tier for tier in self._tiers) else Counter[str]()
        while heap:
            order_key, queue = heappop(heap)
            _, applicant = waiting[queue].pop()
            shortage = self._shortage(applicant, committed, now)
            if shortage is None:
                reserved = (applicant.needs or {}) if applicant.reserved is None else applicant.reserved
                self._queues.commit(applicant.job.key, queue, reserved)
                committed.update(self._queues.outstanding(applicant.job.key, reserved))
                admitted.append(applicant)
            else:
                rejected.append((applicant, shortage))
            if waiting[queue]:
                heappush(heap, (order_key, queue))
        for applicant in admitted:
            del self._applicants[applicant.job.key]
        return Admissions(tuple(admitted), tuple(rejected))

    def _shortage(self, applicant: Applicant, committed: Mapping[str, int], now: float) -> Shortage | None:
        """Return the reason to reject a group, or None."""
        if applicant.needs is None or not self._enabled:
            return None
        limits = self._queues.limits
        for tier in self._tiers:
            permitted = False
            for plugin in tier:
                if plugin == "sla":
                    permitted |= self._has_waited(applicant.job, now)
                    continue
                if plugin == "overcommit":
                    queue = applicant.job.queue
                    shortage = limits.overcommit_shortage(queue, applicant.needs, self._factor, committed)
                else:
                    shortage = limits.capability_shortage(self._queues.account(applicant.job.queue), applicant.needs)
                if shortage is not None:
                    return shortage
                permitted = True
            if permitted:
                return None
        return None

    def _has_waited(self, job: Job, now: float) -> bool:
        waiting = job.may_wait(self._waiting_time)
        return waiting is not None and now >= job.created + waiting
