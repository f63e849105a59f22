"""The action ``enqueue``: admits PodGroups to their queues by their minimum resources.

Source: Volcano pkg/scheduler/actions/enqueue, and JobEnqueueable of its plugins. A policy that rejects a group is
final; a tier in which a policy permits it and none rejects it admits the group without asking later tiers.
"""

from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, Resources
from deviceshare.queueing.job_order import JobOrder
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies import Application, OrderKey
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.shortage import Shortage

ENQUEUE = "enqueue"


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
        self._order = JobOrder(self._queues.policies)
        self._enabled = ENQUEUE in conf.actions
        self._tiers = self._queues.policies.tiers_having("JobEnqueued")

    def put(self, applicant: Applicant) -> None:
        """Add or update a group."""
        self._applicants[applicant.job.key] = applicant

    def discard(self, key: GroupKey) -> None:
        """Remove a group, if present."""
        self._applicants.pop(key, None)

    def due(self, now: float) -> list[float]:
        """Return when policies will admit waiting groups regardless of resources, unix seconds."""
        policies = [policy for tier in self._tiers for policy in tier]
        times = [policy.admits_at(each.job) for policy in policies for each in self._applicants.values()]
        return [time for time in times if time is not None and time > now]

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
        waiting: dict[str, list[tuple[OrderKey, Applicant]]] = {}
        for applicant in self._applicants.values():
            waiting.setdefault(applicant.job.queue, []).append((self._order.key(applicant.job, 0.0), applicant))
        for each in waiting.values():
            each.sort(key=lambda found: found[0], reverse=True)
        heap = [(self._queues.order(queue), queue) for queue in waiting]
        heapify(heap)
        committed = _Committed(self._queues)
        while heap:
            order_key, queue = heappop(heap)
            _, applicant = waiting[queue].pop()
            shortage = self._shortage(applicant, committed, now)
            if shortage is None:
                reserved = (applicant.needs or {}) if applicant.reserved is None else applicant.reserved
                self._queues.commit(applicant.job.key, queue, reserved)
                committed.add(applicant.job.key, reserved)
                admitted.append(applicant)
            else:
                rejected.append((applicant, shortage))
            if waiting[queue]:
                heappush(heap, (order_key, queue))
        for applicant in admitted:
            del self._applicants[applicant.job.key]
        return Admissions(tuple(admitted), tuple(rejected))

    def _shortage(self, applicant: Applicant, committed: "_Committed", now: float) -> Shortage | None:
        """Return the reason to reject a group, or None."""
        if applicant.needs is None or not self._enabled:
            return None
        account = self._queues.account(applicant.job.queue)
        application = Application(applicant.job, account, applicant.needs, self._queues.limits, committed.amounts, now)
        for tier in self._tiers:
            permitted = False
            for policy in tier:
                answer = policy.admit(application)
                if isinstance(answer, Shortage):
                    return answer
                permitted |= answer
            if permitted:
                return None
        return None


class _Committed:
    """What all queues have allocated and promised in a pass over the applicants; counted once a policy asks for it."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._amounts: Counter[str] | None = None

    def amounts(self) -> Counter[str]:
        """Return the amounts by resource."""
        if self._amounts is None:
            self._amounts = self._queues.committed()
        return self._amounts

    def add(self, group: GroupKey, needs: Mapping[str, int]) -> None:
        """Add what a group was just promised."""
        if self._amounts is not None:
            self._amounts.update(self._queues.groups.outstanding(group, needs))
