"""The devices of nodes as ConfigMaps describe them; ClusterD's ConfigMaps precede those of the device plugins."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare.model import FormatError, Problem
from deviceshare.objects import decode_device_info
from deviceshare_cluster.interface import Change, ChangeType


class DeviceInfo(NamedTuple):
    """One ConfigMap's description of a node's devices, and the revision of its last change.

    ``folded``: from ClusterD, which describes many nodes in one ConfigMap.
    """

    devices: Mapping[str, str]
    revision: int
    folded: bool


class NodeDevices:
    """The ConfigMaps of which :func:`deviceshare.objects.describes_devices` is true."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[tuple[str, str], DeviceInfo]] = {}
        """By node, then by ConfigMap."""
        self._named: dict[tuple[str, str], set[str]] = {}
        """The nodes that each ConfigMap describes."""

    def begin_list(self) -> None:
        """Forget the ConfigMaps: all that exist will be delivered again."""
        self._nodes.clear()
        self._named.clear()

    def of(self, node: str) -> DeviceInfo | None:
        """Return the description of a node that counts, None for none."""
        described = self._nodes.get(node)
        if not described:
            return None
        place = min(described, key=lambda place: (not described[place].folded, place))
        return described[place]

    def apply(self, change: Change) -> tuple[list[str], tuple[Problem, ...]]:
        """Apply a change of a ConfigMap; return the nodes whose description changed, and the ConfigMap's problems."""
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
            described = self._nodes.setdefault(node, {})
            known = described.pop(place, None)
            if node in by_node:
                same = known is not None and known.devices == by_node[node]
                described[place] = known if same and known else DeviceInfo(by_node[node], change.revision, folded)
            if not described:
                del self._nodes[node]
            if self.of(node) != before:
                changed.append(node)
        if by_node:
            self._named[place] = set(by_node)
        return changed, problems
