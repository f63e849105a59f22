"""The scheduler's own allocator as a policy of ``lab study partitions``."""

from collections import Counter

from deviceshare.allocation import Allocator, Movable, Placement, plan
from deviceshare.conf import FIRST_FIT, default_conf
from deviceshare.model import PodRequest
from msgspec.structs import replace

from deviceshare_lab.studies.partitions.clusters import Cluster

_EXPECT = 256
"""Arrivals after which the allocator gets the requests of the pods in the cluster."""

PERCENT = 100
"""One pod may be moved for so many arrivals."""
PLANNED = 200
"""Arrivals between two plans."""


class AllocatorPlacer:
    """Places pods as the scheduler does, under a policy; '' and ``first_fit``: as Volcano does."""

    def __init__(self, cluster: Cluster, seed: int, policy: str, *, first_fit: bool = False) -> None:
        conf = replace(default_conf(), policy=policy, devices=cluster.devices)
        # No plugin that scores nodes: the policy alone decides.
        conf = replace(conf, nodeorder=None, binpack=None)
        self.allocator = Allocator(replace(conf, mig_geometry=FIRST_FIT) if first_fit else conf)
        if conf.scoring.fragmentation:
            self.allocator.learn()
        for node in cluster.nodes(seed):
            self.allocator.set_node(node)
        self._classes = [self.allocator.pod_class(each.request()) for each in cluster.profiles]
        self._arrived = 0
        self.placed: dict[int, tuple[str, int]] = {}
        """The node and the profile's number of each pod in the cluster."""

    def request(self, profile: int) -> PodRequest:
        """Return the request of a profile."""
        return self._classes[profile].request

    def place(self, pod: int, profile: int) -> bool:
        """Place a pod; return whether a node was feasible."""
        request = self._classes[profile].request
        self.allocator.arrived(request)
        self._arrived += 1
        if self._arrived % _EXPECT == 0:
            counts = Counter(number for _, number in self.placed.values())
            self.allocator.expect((self.request(number), count) for number, count in sorted(counts.items()))
        placement = self.allocator.place(request)
        if placement is None:
            return False
        self.take(pod, profile, placement)
        return True

    def take(self, pod: int, profile: int, placement: Placement) -> None:
        """Charge a pod."""
        self.allocator.take(str(pod), placement)
        self.placed[pod] = placement.node, profile

    def leave(self, pod: int) -> None:
        """End a pod."""
        node, _ = self.placed.pop(pod)
        self.allocator.release(node, str(pod))


class DefragmentingPlacer(AllocatorPlacer):
    """The policy ``fragmentation``; its plans are carried out at once, for at most 1 % of the pods that arrived."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed, "fragmentation")
        self.moved = 0

    def place(self, pod: int, profile: int) -> bool:
        """Move pods if it is time for it, then place a pod."""
        if self._arrived % PLANNED == 0 and (budget := self._arrived // PERCENT - self.moved) > 0:
            self._defragment(budget)
        return super().place(pod, profile)

    def _defragment(self, budget: int) -> None:
        movable = [Movable(str(pod), node, self.request(profile)) for pod, (node, profile) in self.placed.items()]
        for move in plan(self.allocator, (), budget, movable):
            pod = int(move.pod.uid)
            _, profile = self.placed[pod]
            self.leave(pod)
            self.take(pod, profile, move.placement)
            self.moved += 1
