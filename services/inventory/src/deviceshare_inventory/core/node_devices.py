"""What ConfigMaps say of the devices of nodes, ClusterD's before those of the device plugins themselves."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare.model import FormatError, Problem
from deviceshare.objects import decode_device_info
from deviceshare_cluster.interface import Change, ChangeType


class Told(NamedTuple):
    """What is said of one node's devices, and since which revision of the cluster."""

    devices: Mapping[str, str]
    revision: int
    folded: bool


class NodeDevices:
    """The ConfigMaps of which :func:`deviceshare.objects.device_info.tells_of_devices` is true."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[tuple[str, str], Told]] = {}
        """By node, and by the ConfigMap that says it."""
        self._named: dict[tuple[str, str], set[str]] = {}
        """The nodes that a ConfigMap names."""

    def begin_list(self) -> None:
        """Forget the ConfigMaps: all that exist will come again."""
        self._nodes.clear()
        self._named.clear()

    def of(self, node: str) -> Told | None:
        """Return what is said of a node, None for nothing."""
        told = self._nodes.get(node)
        if not told:
            return None
        place = min(told, key=lambda place: (not told[place].folded, place))
        return told[place]

    def apply(self, change: Change) -> tuple[list[str], tuple[Problem, ...]]:
        """Take a ConfigMap; returns the nodes of which something else is said now, and what is wrong with it."""
        place = (change.namespace, change.name)
        by_node: Mapping[str, Mapping[str, str]] = {}
        problems: tuple[Problem, ...] = ()
        folded = False
        if change.type is not ChangeType.DELETED:
            try:
                by_node, problems, folded = decode_device_info(change.raw)
            except FormatError as error:
                problems = (error.problem,)
        named = self._named.pop(place, set()) | by_node.keys()
        changed = []
        for node in sorted(named):
            before = self.of(node)
            told = self._nodes.setdefault(node, {})
            standing = told.pop(place, None)
            if node in by_node:
                same = standing is not None and standing.devices == by_node[node]
                told[place] = standing if same and standing else Told(by_node[node], change.revision, folded)
            if not told:
                del self._nodes[node]
            if self.of(node) != before:
                changed.append(node)
        if by_node:
            self._named[place] = set(by_node)
        return changed, problems
