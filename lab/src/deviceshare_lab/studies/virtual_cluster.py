"""A cluster whose pods arrive and end in simulated time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, NodeFact, PodFact, PodRequest, PodUid, QueueFact
from deviceshare.queueing import Dispatcher, Group, Job, Queues

_MAX_AT_ONCE = 1_000_000


class Arrival(NamedTuple):
    """Pods with equal requests that arrive together and run for ``seconds`` each.

    ``minimum``: number of pods that start together; None: all.
    """

    name: str
    queue: str
    request: PodRequest
    seconds: float
    pods: int = 1
    minimum: int | None = None


class Sample(NamedTuple):
    """Allocated amounts at a time, by queue and by name of the arrival, in the units of queues."""

    at: float
    by_queue: dict[str, Counter[str]]
    by_name: dict[str, Counter[str]]


class Simulation:
    """One cluster; ``placed`` is called for each placed pod."""

    def __init__(
        self,
        nodes: Iterable[NodeFact],
        queues: Iterable[QueueFact],
        conf: SchedulerConf,
        placed: Callable[["Simulation", Arrival, float], None] | None = None,
    ) -> None:
        self._allocator = Allocator(conf)
        self.queues = Queues(conf)
        self._dispatcher = Dispatcher(self._allocator, self.queues, conf, reasons=False)
        self._placed = placed
        for node in nodes:
            self._allocator.set_node(node)
            self.queues.set_node(node)
        for queue in queues:
            self.queues.set_queue(queue)
        self._arriving: list[tuple[float, int, Arrival]] = []
        self._ending: list[tuple[float, int, str, PodFact]] = []
        self._numbers = count()
        self._arrivals: dict[GroupKey, Arrival] = {}
        self.started: dict[str, float] = {}
        """Time of the first placement, by name of the arrival."""

    def add(self, at: float, arrival: Arrival) -> None:
        """Add an arrival at a time."""
        heappush(self._arriving, (at, next(self._numbers), arrival))

    def run(self, until: float, every: float, names: Sequence[str] = ()) -> list[Sample]:
        """Run until a time and return a sample every ``every`` seconds, including the arrivals ``names``."""
        samples = []
        for step in range(int(until / every) + 1):
            now = step * every
            while (moment := self._next()) is not None and moment <= now:
                self._advance(moment)
            samples.append(self._sample(now, names))
        return samples

    def _next(self) -> float | None:
        """Return the time of the next arrival, end or round, None if nothing is left to happen."""
        heaps = [heap[0][0] for heap in (self._arriving, self._ending) if heap]
        return min([*heaps, *self._dispatcher.due()], default=None)

    def _advance(self, now: float) -> None:
        """Process the ends and arrivals until a time, then decide."""
        while self._ending and self._ending[0][0] <= now:
            _, _, node, pod = heappop(self._ending)
            self._allocator.release(node, pod.uid)
            self.queues.drop(pod.uid)
            self._dispatcher.made_room()
        while self._arriving and self._arriving[0][0] <= now:
            self._put(now, heappop(self._arriving)[2])
        for decision in self._dispatcher.decide(_MAX_AT_ONCE, now).placed.values():
            arrival = self._arrivals[decision.group.key]
            for pod, placement in decision.placed:
                self.started.setdefault(arrival.name, now)
                heappush(self._ending, (now + arrival.seconds, next(self._numbers), placement.node, pod))
                if self._placed is not None:
                    self._placed(self, arrival, now)

    def _put(self, now: float, arrival: Arrival) -> None:
        number = next(self._numbers)
        single = arrival.pods == 1
        group = f"pod/{number}-0" if single else f"simulated/{arrival.name}-{number}"
        pods = tuple(
            PodFact(
                uid=PodUid(f"{number}-{at}"),
                namespace="simulated",
                name=f"{arrival.name}-{number}-{at}",
                created=now,
                group=GroupKey(group),
                queue=arrival.queue,
                ask=arrival.request,
            )
            for at in range(arrival.pods)
        )
        for pod in pods:
            self.queues.put(pod, arrival.queue, pod.group)
        self._arrivals[pods[0].group] = arrival
        minimum = arrival.pods if arrival.minimum is None else arrival.minimum
        self._dispatcher.put(
            Job(queue=arrival.queue, group=Group(key=pods[0].group, pods=pods, minimum=minimum), created=now)
        )

    def _sample(self, now: float, names: Sequence[str]) -> Sample:
        by_queue = {name: Counter(self.queues.account(name).allocated) for name in self.queues.names}
        by_name: dict[str, Counter[str]] = {name: Counter() for name in names}
        for group, arrival in self._arrivals.items() if names else ():
            if arrival.name in by_name:
                by_name[arrival.name].update(self.queues.groups.allocated(group))
        return Sample(now, by_queue, by_name)
