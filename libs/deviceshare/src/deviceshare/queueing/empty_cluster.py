"""The nodes of the cluster as they would be without pods: a group that does not fit there cannot start."""

from collections.abc import Iterable

from msgspec.structs import replace

from deviceshare.allocation import Allocator, Unplaceable
from deviceshare.conf import SchedulerConf
from deviceshare.model import NodeFact, PodFact, PodRequest
from deviceshare.queueing.gangs import decide
from deviceshare.queueing.group import Group
from deviceshare.state import Trial

_OF_CONDITIONS = "node.kubernetes.io/"
"""The prefix of the taints that Kubernetes sets for what passes: a node that is not ready, or cordoned."""


class EmptyCluster:
    """Nodes without pods, all of them ready and not cordoned."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._allocator = Allocator(conf)
        self._nodes: dict[str, NodeFact] = {}

    def update(self, nodes: Iterable[NodeFact]) -> bool:
        """Set the nodes; what has not changed costs nothing. Returns whether any of them is another one when empty."""
        changed = False
        current = {node.name: node for node in nodes}
        for name in self._nodes.keys() - current.keys():
            self._allocator.remove_node(name)
            changed = True
        for name, node in current.items():
            before = self._nodes.get(name)
            if before is not node and (before is None or _able(before) != _able(node)):
                self._allocator.set_node(_able(node))
                changed = True
        self._nodes = current
        return changed

    def serves(self, group: Group) -> bool:
        """Return whether the missing minimum of a group fits.

        True for pods that need other pods, volumes or devices of ResourceClaims, which are not known here.
        """
        if any(_needs_more(pod.ask) for pod in group.pods):
            return True
        with Trial(self._allocator.undo_log):
            return bool(decide(self._allocator, group, reasons=False).placed)

    def why_not(self, group: Group) -> tuple[PodFact, Unplaceable] | None:
        """Return a pod of a group that does not fit, and why; None if no pod has a reason of its own."""
        with Trial(self._allocator.undo_log):
            waiting = decide(self._allocator, group).waiting
        return next(((pod, why) for pod, why in waiting if isinstance(why, Unplaceable)), None)


def _able(node: NodeFact) -> NodeFact:
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_OF_CONDITIONS))
    return replace(node, ready=True, unschedulable=False, paused="", taints=taints)


def _needs_more(ask: PodRequest) -> bool:
    return bool(ask.topology or ask.imposed or ask.volumes or ask.claims or ask.disks or ask.devices)
