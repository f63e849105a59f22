"""Pod classes by request, and the bound on how many of them keep their ranking of the nodes."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from deviceshare.allocation.pod_class import PodClass
from deviceshare.conf import SchedulerConf
from deviceshare.families.dra import ClusterDevices
from deviceshare.model import PodRequest
from deviceshare.topology import PlacedPods

COUNTED_BYTES = 1 << 29
"""What is counted for the inter-pod constraints of ranked classes, and remembered for their ResourceClaims, roughly.

Beyond, classes lose their rankings. The class in use keeps its own, whatever its size.
"""
MAX_RANKED = 4096
"""Pod classes that keep their ranking; beyond, the least recently used class loses it.

A ranking takes some 10 bytes a node; in addition, a class with volumes takes a byte a node for each reason of its
volumes, at most four, and other classes with constraints about pods what :mod:`deviceshare.topology` counts for them.
A DaemonSet has one pod class for each node, by its pods' node affinity.
"""


class PodClasses:
    """One :class:`PodClass` for each request that a pod has.

    A class lives as long as its holders (the records of pods) or as long as it is among the ``most`` classes that were
    used last. Only these have a ranking.
    """

    def __init__(self, conf: SchedulerConf, most: int = MAX_RANKED) -> None:
        self._conf = conf
        self._generation = 0
        """The number of configurations before this one."""
        self._most = most
        self._classes: WeakValueDictionary[PodRequest, PodClass] = WeakValueDictionary()
        self._recent: OrderedDict[PodRequest, PodClass] = OrderedDict()
        """The least recently used class first."""

    def handle(self, request: PodRequest) -> PodClass:
        """Return the class of pods with this request, whether or not it was read."""
        pod_class = self._classes.get(request)
        if pod_class is None:
            pod_class = self._classes[request] = PodClass(request)
        return pod_class

    def read(self, request: PodRequest) -> PodClass:
        """Return the class of pods with this request, read under the current configuration."""
        pod_class = self._recent.get(request)
        if pod_class is None:
            pod_class = self.handle(request)
            if pod_class.generation != self._generation:
                pod_class.read(self._conf, self._generation)
        return pod_class

    def use(self, request: PodRequest) -> PodClass:
        """Return the class as :meth:`read` does, and make it the one that was used last."""
        recent = self._recent
        pod_class = recent.get(request)
        if pod_class is not None:
            recent.move_to_end(request)
            return pod_class
        pod_class = self.read(request)
        recent[pod_class.request] = pod_class
        if len(recent) > self._most:
            _, oldest = recent.popitem(last=False)
            oldest.drop_ranking()
        return pod_class

    def shrink(self, counted: PlacedPods | None, devices: ClusterDevices) -> None:
        """Drop rankings, the least recently used first, until little enough is counted for the others."""
        while devices.remembered + (0 if counted is None else counted.size) > COUNTED_BYTES and len(self._recent) > 1:
            _, oldest = self._recent.popitem(last=False)
            oldest.drop_ranking()

    def set_configuration(self, conf: SchedulerConf) -> None:
        """Read requests under another configuration, each when it is used next; drop all rankings."""
        self._conf = conf
        self._generation += 1
        for pod_class in self._recent.values():
            pod_class.drop_ranking()
        self._recent.clear()
