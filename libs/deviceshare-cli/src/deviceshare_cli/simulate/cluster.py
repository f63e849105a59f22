"""A cluster whose pods come and end in simulated time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, NodeFact, PodFact, PodRequest, PodUid, QueueFact
from deviceshare.queueing import Dispatcher, Group, Job, Queues

_MOST_AT_ONCE = 1_000_000


class Work(NamedTuple):
    """Pods that come together and all ask the same, and for how many seconds each of them runs.

    ``minimum`` of them start together; None: all of them.
    """

    name: str
    queue: str
    ask: PodRequest
    seconds: float
    pods: int = 1
    minimum: int | None = None


class Sample(NamedTuple):
    """What was taken at a moment: by queue and by work, in the amounts by which queues count."""

    at: float
    by_queue: dict[str, Counter[str]]
    by_work: dict[str, Counter[str]]


class Simulation:
    """One cluster. ``placed`` is told of each pod that was placed, when it is."""

    def __init__(
        self,
        nodes: Iterable[NodeFact],
        queues: Iterable[QueueFact],
        conf: SchedulerConf,
        placed: Callable[["Simulation", Work, float], None] | None = None,
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
        self._coming: list[tuple[float, int, Work]] = []
        self._ending: list[tuple[float, int, str, PodFact]] = []
        self._numbers = count()
        self._work: dict[GroupKey, Work] = {}
        self.started: dict[str, float] = {}
        """When the first pods of each work were placed."""

    def come(self, at: float, work: Work) -> None:
        """Let pods come at a moment."""
        heappush(self._coming, (at, next(self._numbers), work))

    def run(self, until: float, every: float, names: Sequence[str] = ()) -> list[Sample]:
        """Play until a moment; returns a sample every so many seconds, of these works as well."""
        samples = []
        for step in range(int(until / every) + 1):
            now = step * every
            while (moment := self._next()) is not None and moment <= now:
                self._play(moment)
            samples.append(self._sample(now, names))
        return samples

    def _next(self) -> float | None:
        return min((heap[0][0] for heap in (self._coming, self._ending) if heap), default=None)

    def _play(self, now: float) -> None:
        """Let all happen that happens at a moment, and decide."""
        while self._ending and self._ending[0][0] <= now:
            _, _, node, pod = heappop(self._ending)
            self._allocator.release(node, pod.uid)
            self.queues.drop(pod.uid)
            self._dispatcher.made_room()
        while self._coming and self._coming[0][0] <= now:
            self._put(now, heappop(self._coming)[2])
        for decision in self._dispatcher.decide(_MOST_AT_ONCE, now).placed.values():
            work = self._work[decision.group.key]
            for pod, placement in decision.placed:
                self.started.setdefault(work.name, now)
                heappush(self._ending, (now + work.seconds, next(self._numbers), placement.node, pod))
                if self._placed is not None:
                    self._placed(self, work, now)

    def _put(self, now: float, work: Work) -> None:
        number = next(self._numbers)
        single = work.pods == 1
        group = f"pod/{number}-0" if single else f"simulated/{work.name}-{number}"
        pods = tuple(
            PodFact(
                uid=PodUid(f"{number}-{at}"),
                namespace="simulated",
                name=f"{work.name}-{number}-{at}",
                created=now,
                group=GroupKey(group),
                queue=work.queue,
                ask=work.ask,
            )
            for at in range(work.pods)
        )
        for pod in pods:
            self.queues.put(pod, work.queue, pod.group)
        self._work[pods[0].group] = work
        minimum = work.pods if work.minimum is None else work.minimum
        self._dispatcher.put(
            Job(queue=work.queue, group=Group(key=pods[0].group, pods=pods, minimum=minimum), created=now)
        )

    def _sample(self, now: float, names: Sequence[str]) -> Sample:
        by_queue = {name: Counter(self.queues.account(name).allocated) for name in self.queues.names}
        by_work: dict[str, Counter[str]] = {name: Counter() for name in names}
        for group, work in self._work.items() if names else ():
            if work.name in by_work:
                by_work[work.name].update(self.queues.allocated(group))
        return Sample(now, by_queue, by_work)
