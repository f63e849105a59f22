"""The parked job classes of one action, by what may wake them.

A class that lacks capacity waits for nodes that change (:class:`~deviceshare.allocation.WaitingRequests`), for pods or
volumes that it follows, and for its next diagnosis; a class that limits of its queue hold back waits for the first of
its needs that the queue does not allow. So what happens in the cluster costs no look at all classes.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

from deviceshare.allocation import WaitingRequests
from deviceshare.model import PodRequest
from deviceshare.queueing.claiming import Claiming
from deviceshare.queueing.job_class import ROOM, JobClass
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.replacing_heap import ReplacingHeap
from deviceshare.queueing.shortage import DESERVED

_Limit = tuple[str, str, bool]
"""Queue, resource, and whether the deserved amount is ignored."""
_Resources = tuple[str, frozenset[str]]
"""Queue, and the resources of which it deserves too little."""

_Key = TypeVar("_Key", bound=Hashable)


class Parked:
    """Parked job classes.

    Args:
        requests: an empty set, for the requests of the classes that lack capacity.
    """

    def __init__(self, requests: WaitingRequests) -> None:
        self._requests = requests
        self._classes: dict[Hashable, JobClass] = {}
        self._lacking: dict[Hashable, JobClass] = {}
        """Those that lack capacity."""
        self._following: defaultdict[int, dict[Hashable, JobClass]] = defaultdict(dict)
        """Those of them for which there may be room though no node has changed, by the bits of that room."""
        self._explained: dict[Hashable, JobClass] = {}
        """Those of them with a diagnosis that is up to date."""
        self._outdated: defaultdict[str, ReplacingHeap[float, JobClass]] = defaultdict(ReplacingHeap)
        """The other ones by queue, the one first that was diagnosed first."""
        self._limited: defaultdict[_Limit, ReplacingHeap[float, JobClass]] = defaultdict(ReplacingHeap)
        """Those that wait for limits, by one that does not allow what they need, the one first that needs least."""
        self._limit_of: dict[Hashable, _Limit] = {}
        self._over_deserved: defaultdict[_Resources, dict[Hashable, JobClass]] = defaultdict(dict)
        """Those that have not tried to borrow, and would have to."""
        self.claiming = Claiming()
        """Those that wait for nodes alone, and have not tried to borrow."""
        self._changed: dict[Hashable, JobClass] = {}
        """Those that were parked or woken, or of which jobs came or went, since :meth:`take_changed`."""

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def classes(self) -> Collection[JobClass]:
        """All of them."""
        return self._classes.values()

    def __contains__(self, job_class: JobClass) -> bool:
        return job_class.name in self._classes

    def put(self, job_class: JobClass, requests: Iterable[PodRequest]) -> None:
        """Add a job class with the reasons for which it is parked; ``requests`` are those of its pods."""
        name = job_class.name
        self._classes[name] = self._changed[name] = job_class
        if job_class.lacks_room:
            self._lacking[name] = job_class
            self._requests.put(name, requests)
            if following := job_class.woken_by & ~ROOM:
                self._following[following][name] = job_class
            if job_class.unexplained:
                self._outdated[job_class.queue].put(name, job_class.explained_at, job_class)
            else:
                self._explained[name] = job_class
        if job_class.needs:
            self._wait_for(job_class, 0)
        if not job_class.borrowing:
            if (over := _over_deserved(job_class)) is not None:
                self._over_deserved[over][name] = job_class
            if not job_class.needs:
                self.claiming.put(job_class)

    def discard(self, job_class: JobClass) -> bool:
        """Remove a job class; return whether it was parked."""
        name = job_class.name
        if self._classes.pop(name, None) is None:
            return False
        for known in (self._lacking, self._explained, *self._following.values()):
            known.pop(name, None)
        self.claiming.discard(job_class)
        self._changed[name] = job_class
        self._requests.discard(name)
        _discard(self._outdated, job_class.queue, name)
        if (limit := self._limit_of.pop(name, None)) is not None:
            _discard(self._limited, limit, name)
        if (over := _over_deserved(job_class)) is not None and over in self._over_deserved:
            self._over_deserved[over].pop(name, None)
            if not self._over_deserved[over]:
                del self._over_deserved[over]
        return True

    def jobs_changed(self, job_class: JobClass) -> None:
        """Note that a job of a parked job class came or went."""
        self._changed[job_class.name] = job_class

    def take_changed(self) -> Collection[JobClass]:
        """Return the job classes that were parked or woken, or of which jobs came or went, since the last call."""
        changed, self._changed = self._changed, {}
        return changed.values()

    # Room

    def retried(self, room: int) -> int:
        """Return about how many job classes new ``room`` (bits), or a diagnosis, makes be tried again."""
        if room & ROOM:
            return len(self._lacking)
        following = sum(len(known) for bits, known in self._following.items() if room & bits)
        return following + sum(map(len, self._outdated.values()))

    def served(self, room: int) -> list[JobClass]:
        """Return the job classes that may fit, since there is new ``room`` (bits) since the last call."""
        found = [job_class for bits, known in self._following.items() if room & bits for job_class in known.values()]
        if room & ROOM:
            found += [self._classes[name] for name in self._requests.served()]
        return found

    # Diagnoses

    def outdate(self) -> None:
        """Note that the diagnoses of all job classes that lack capacity are outdated."""
        for name, job_class in self._explained.items():
            self._outdated[job_class.queue].put(name, job_class.explained_at, job_class)
        self._explained.clear()

    @property
    def outdated_queues(self) -> list[str]:
        """The queues with job classes whose diagnosis is outdated."""
        return list(self._outdated)

    def outdated(self, queue: str) -> tuple[float, JobClass] | None:
        """Return when the first outdated diagnosis of a queue was made, and its job class, or None."""
        heap = self._outdated.get(queue)
        return None if heap is None else heap.first()

    # Limits of queues

    @property
    def over_deserved(self) -> list[tuple[str, frozenset[str], Collection[JobClass]]]:
        """The job classes that would have to borrow and have not tried, by queue and resources to borrow."""
        return [(queue, resources, list(known.values())) for (queue, resources), known in self._over_deserved.items()]

    def allowed(self, queues: Queues) -> list[JobClass]:
        """Return the job classes whose queue allows all that they need."""
        found = []
        for limit in list(self._limited):
            queue, resource, borrowing = limit
            heap = self._limited[limit]
            while (first := heap.first()) is not None:
                amount, job_class = first
                if not queues.allows(queue, resource, int(amount), borrowing=borrowing):
                    break
                for at, need in enumerate(job_class.needs):
                    if not queues.allows(queue, need[0], need[1], borrowing=need[2]):
                        self._wait_for(job_class, at)
                        break
                else:
                    heap.discard(job_class.name)
                    del self._limit_of[job_class.name]
                    found.append(job_class)
            if not heap:
                del self._limited[limit]
        return found

    def _wait_for(self, job_class: JobClass, at: int) -> None:
        resource, amount, borrowing = job_class.needs[at]
        limit = (job_class.queue, resource, borrowing)
        if (before := self._limit_of.get(job_class.name)) is not None:
            self._limited[before].discard(job_class.name)
        self._limit_of[job_class.name] = limit
        self._limited[limit].put(job_class.name, amount, job_class)


def _over_deserved(job_class: JobClass) -> _Resources | None:
    resources = frozenset(shortage.resource for shortage in job_class.shortages if shortage.bound == DESERVED)
    return (job_class.queue, resources) if resources else None


def _discard(heaps: dict[_Key, ReplacingHeap[float, JobClass]], key: _Key, name: Hashable) -> None:
    """Remove a job class from the heap of a key, and the heap if it is empty."""
    heap = heaps.get(key)
    if heap is not None:
        heap.discard(name)
        if not heap:
            del heaps[key]
