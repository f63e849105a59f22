"""The parked job classes that may claim what their queue deserves, by queue and requested resource."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable

from deviceshare.queueing.job_class import JobClass
from deviceshare.queueing.queues import Queues


class Claiming:
    """Parked job classes that wait for nodes alone, and have not tried to borrow."""

    def __init__(self) -> None:
        self._unread: dict[Hashable, JobClass] = {}
        """Those whose resources are not known yet."""
        self._read: dict[Hashable, tuple[JobClass, Collection[str]]] = {}
        """The other ones, with the resources that their pods request."""
        self._by_resource: defaultdict[str, defaultdict[str, dict[Hashable, JobClass]]]
        self._by_resource = defaultdict(lambda: defaultdict(dict))
        """Those by resource and queue."""
        self._read_with: object = None
        """The cards of nodes, and the devices that queues name: pods may count other resources with others."""

    def put(self, job_class: JobClass) -> None:
        """Add a job class."""
        self._unread[job_class.name] = job_class

    def discard(self, job_class: JobClass) -> None:
        """Remove a job class, if present."""
        name, queue = job_class.name, job_class.queue
        self._unread.pop(name, None)
        for resource in self._read.pop(name, (job_class, ()))[1]:
            by_queue = self._by_resource[resource]
            del by_queue[queue][name]
            if not by_queue[queue]:
                del by_queue[queue]
                if not by_queue:
                    del self._by_resource[resource]

    def update(self, queues: Queues) -> None:
        """Read the resources of job classes that were added since the last call; of all if they may be others."""
        now = queues.counting.profiles, queues.claims.names
        if self._read_with != now:
            self._read_with = now
            for job_class, _ in list(self._read.values()):
                self.discard(job_class)
                self.put(job_class)
        for name, job_class in self._unread.items():
            first = job_class.first()
            resources = () if first is None else queues.asked(first[1].group.pods).keys()
            self._read[name] = (job_class, resources)
            for resource in resources:
                self._by_resource[resource][job_class.queue][name] = job_class
        self._unread = {}

    def queues_of(self, resource: str) -> Collection[str]:
        """Return the queues with job classes that request a resource."""
        return self._by_resource.get(resource, {}).keys()

    def has(self, queue: str, resource: str, claims: Callable[[JobClass], bool]) -> bool:
        """Return whether one of the job classes that request a resource claims it."""
        job_classes = self._by_resource[resource][queue]
        others: list[Hashable] = []
        for name, job_class in job_classes.items():
            if claims(job_class):
                break
            others.append(name)
        has = len(others) < len(job_classes)
        # The next call begins with the one that claims the resource.
        for name in others if has else ():
            job_classes[name] = job_classes.pop(name)
        return has
