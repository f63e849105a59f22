"""One run of ``lab study partitions``: a policy on the arrivals of a seed."""

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from deviceshare_lab.studies.partitions.arrivals import WARM_UP, draw
from deviceshare_lab.studies.partitions.baselines import BestFit
from deviceshare_lab.studies.partitions.clusters import CLUSTERS, Cluster
from deviceshare_lab.studies.partitions.product import AllocatorPlacer, DefragmentingPlacer


class Placer(Protocol):
    """A policy with the cards of a cluster."""

    def place(self, pod: int, profile: int) -> bool:
        """Place a pod that requests a profile, by its number; return whether a node was feasible."""
        ...

    def leave(self, pod: int) -> None:
        """End a placed pod."""
        ...


class Task(NamedTuple):
    """What is run."""

    cluster: str
    distribution: str
    load: float
    policy: str
    seed: int


class Result(NamedTuple):
    """The pods that arrived after the warm-up and those that were placed, by the number of the profile.

    ``used``: the memory that the placed pods requested, multiplied by their lifetimes, as a share of that of all.
    """

    task: Task
    arrived: Counter[int]
    placed: Counter[int]
    used: float
    moved: int = 0

    @property
    def acceptance(self) -> float:
        """The part of the arrived pods that were placed."""
        return self.placed.total() / max(self.arrived.total(), 1)


MOVING = "fragmentation+moves"
"""The name of ``fragmentation`` with plans to move pods, ``--defragment``."""
POLICIES: dict[str, Callable[[Cluster, int], Placer]] = {
    "fragmentation": lambda cluster, seed: AllocatorPlacer(cluster, seed, "fragmentation"),
    "binpack": lambda cluster, seed: AllocatorPlacer(cluster, seed, "binpack"),
    "spread": lambda cluster, seed: AllocatorPlacer(cluster, seed, "spread"),
    "bestfit": BestFit,
    "bestfit-instance": lambda cluster, seed: BestFit(cluster, seed, by_instance=True),
    "firstfit": lambda cluster, seed: AllocatorPlacer(cluster, seed, "", first_fit=True),
}
"""How to start a run of each policy, with a cluster and a seed."""
_STARTS = POLICIES | {MOVING: DefragmentingPlacer}


def run(task: Task) -> Result:
    """Run a policy: a pod that fits nowhere when it arrives is rejected."""
    cluster = CLUSTERS[task.cluster]
    placer = _STARTS[task.policy](cluster, task.seed)
    arrived, placed = Counter[int](), Counter[int]()
    requested = used = 0.0
    ends: list[tuple[float, int]] = []
    for pod, arrival in enumerate(draw(cluster, task.distribution, task.load, task.seed)):
        while ends and ends[0][0] <= arrival.at:
            placer.leave(heappop(ends)[1])
        done = placer.place(pod, arrival.profile)
        if done:
            heappush(ends, (arrival.at + arrival.lifetime, pod))
        if arrival.at >= WARM_UP:
            work = arrival.lifetime * cluster.profiles[arrival.profile].memory
            arrived[arrival.profile] += 1
            placed[arrival.profile] += done
            requested += work
            used += work * done
    return Result(task, arrived, placed, used / max(requested, 1e-9), getattr(placer, "moved", 0))
