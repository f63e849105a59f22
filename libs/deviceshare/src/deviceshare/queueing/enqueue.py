"""Letting PodGroups into their queues: as many as a queue can hold, by its capability, with what they need at least.

Source: Volcano pkg/scheduler/actions/enqueue, and JobEnqueueable of pkg/scheduler/plugins/{proportion,capacity,
overcommit,sla}. A plugin of a tier that says no keeps a group out; one that says yes lets it in, whatever later tiers
say.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, Resources
from deviceshare.queueing.jobs import Job, JobOrder, Order
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.shortage import Shortage

ENQUEUE = "enqueue"
_PLUGINS = ("proportion", "capacity", "overcommit", "sla")


class Applicant(msgspec.Struct, frozen=True):
    """A group that is not in its queue yet, as it would stand in line, and what it needs at least."""

    job: Job
    needs: Resources | None = None
    reserved: Resources | None = None
    """What is kept for it once it is let in: ``needs`` without what gated pods request; None for all of it."""


class Admissions(msgspec.Struct, frozen=True):
    """Who was let in, and why the others were not."""

    admitted: tuple[Applicant, ...] = ()
    rejected: tuple[tuple[Applicant, Shortage], ...] = ()


class EnqueueAction:
    """Those who wait to be let into their queues."""

    def __init__(self, queues: Queues, conf: SchedulerConf) -> None:
        self._queues = queues
        self._applicants: dict[GroupKey, Applicant] = {}
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Admit by another configuration from now on."""
        self._order = JobOrder(conf)
        self._asks = ENQUEUE in conf.actions
        self._factor = conf.overcommit
        self._waiting_time = conf.waiting_time
        self._tiers = [
            [plugin.name for plugin in tier if plugin.name in _PLUGINS and "JobEnqueued" not in plugin.off]
            for tier in conf.tiers
        ]

    def put(self, applicant: Applicant) -> None:
        """Let a group apply, in place of what it applied for before."""
        self._applicants[applicant.job.key] = applicant

    def discard(self, key: GroupKey) -> None:
        """Take a group out, if it is here."""
        self._applicants.pop(key, None)

    def due(self, now: float) -> list[float]:
        """Return when groups will have waited so long that they are let in whatever there is, unix seconds."""
        if not any("sla" in tier for tier in self._tiers):
            return []
        waiting = [(each.job, each.job.may_wait(self._waiting_time)) for each in self._applicants.values()]
        return [job.created + most for job, most in waiting if most is not None and job.created + most > now]

    def decide(self, now: float) -> Admissions:
        """Let in whom there is room for: queue by queue, in the order of work."""
        if not self._applicants:
            return Admissions()
        for applicant in self._applicants.values():
            # A queue of which nothing is known yet has bounds as well.
            self._queues.account(applicant.job.queue)
        self._queues.refresh()
        admitted: list[Applicant] = []
        rejected: list[tuple[Applicant, Shortage]] = []
        waiting: dict[str, list[tuple[Order, Applicant]]] = {}
        for applicant in self._applicants.values():
            waiting.setdefault(applicant.job.queue, []).append((self._order.place(applicant.job, 0.0), applicant))
        for each in waiting.values():
            each.sort(key=lambda found: found[0], reverse=True)
        heap = [(self._queues.order(queue), queue) for queue in waiting]
        heapify(heap)
        spoken_for = self._queues.spoken_for() if any("overcommit" in tier for tier in self._tiers) else Counter[str]()
        while heap:
            place, queue = heappop(heap)
            _, applicant = waiting[queue].pop()
            shortage = self._shortage(applicant, spoken_for, now)
            if shortage is None:
                reserved = (applicant.needs or {}) if applicant.reserved is None else applicant.reserved
                self._queues.commit(applicant.job.key, queue, reserved)
                spoken_for.update(self._queues.still_needed(applicant.job.key, reserved))
                admitted.append(applicant)
            else:
                rejected.append((applicant, shortage))
            if waiting[queue]:
                heappush(heap, (place, queue))
        for applicant in admitted:
            del self._applicants[applicant.job.key]
        return Admissions(tuple(admitted), tuple(rejected))

    def _shortage(self, applicant: Applicant, spoken_for: Mapping[str, int], now: float) -> Shortage | None:
        """Return what keeps a group out, None for nothing."""
        if applicant.needs is None or not self._asks:
            return None
        for tier in self._tiers:
            permitted = False
            for plugin in tier:
                if plugin == "sla":
                    permitted |= self._has_waited(applicant.job, now)
                    continue
                if plugin == "overcommit":
                    shortage = self._queues.short_of_all(applicant.job.queue, applicant.needs, self._factor, spoken_for)
                else:
                    shortage = self._queues.short_of_capability(applicant.job.queue, applicant.needs)
                if shortage is not None:
                    return shortage
                permitted = True
            if permitted:
                return None
        return None

    def _has_waited(self, job: Job, now: float) -> bool:
        waiting = job.may_wait(self._waiting_time)
        return waiting is not None and now >= job.created + waiting
