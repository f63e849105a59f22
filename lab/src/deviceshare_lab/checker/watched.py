"""Follows nodes and pods by a watch: cards hold what is bound to them, and a bound pod keeps its node and devices."""

from collections.abc import Callable

import msgspec
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.checker.cards import Object, Parts, devices_of, over_cards

Report = Callable[[str, str], None]
Devices = tuple[tuple[str, str], ...]


class Bindings:
    """The nodes and pods as the watch has shown them."""

    def __init__(self, cluster: LocalCluster, report: Report, parts: Parts) -> None:
        self._cluster, self._report, self._parts = cluster, report, parts
        self.nodes: dict[str, Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.bound: dict[str, tuple[str, str, Devices]] = {}
        """Name, node and devices of each bound pod that exists, by uid."""
        self.foreign: set[str] = set()
        """Pods that another scheduler bound."""
        self.count = 0
        """How many pods were bound so far."""
        self.changes = 0
        """How many changes of nodes and pods were seen."""

    async def run(self) -> None:
        """Follow without end."""
        async for batch in self._cluster.watch(("Node", "Pod")):
            touched = set()
            for change in batch:
                if isinstance(change, Change):
                    self.changes += 1
                    touched.add(self._take(change))
            for node in sorted(touched - {""}):
                self._check_cards(node)

    def _take(self, change: Change) -> str:
        """Take a change; return the node to which a pod was bound by it, '' for none."""
        if change.kind == "Node":
            self.nodes.pop(change.name, None)
            if change.type is ChangeType.APPLIED:
                self.nodes[change.name] = msgspec.json.decode(change.raw)
            return ""
        key = change.namespace, change.name
        before = self.pods.pop(key, None)
        pod = msgspec.json.decode(change.raw) if change.type is ChangeType.APPLIED else None
        if before is not None and (pod is None or pod["metadata"]["uid"] != before["metadata"]["uid"]):
            self.bound.pop(before["metadata"]["uid"], None)
            self.foreign.discard(before["metadata"]["uid"])
        if pod is None:
            return ""
        self.pods[key] = pod
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        known = self.bound.get(uid)
        now = "/".join(key), node, names(pod)
        if known is not None and known != now:
            self._report("a bound pod keeps its devices", f"{known}, now {now} ({uid})")
        if not node:
            return ""
        self.bound[uid] = now
        self.count += known is None
        return node if known is None else ""

    def _check_cards(self, node: str) -> None:
        if node in self.nodes:
            for problem in over_cards(self.nodes[node], self.on_node(node), self._parts):
                self._report("cards hold what is bound to them", problem)

    def on_node(self, node: str) -> list[Object]:
        """Return the pods that hold devices of a node, without those of another scheduler."""
        return [
            pod
            for pod in self.pods.values()
            if pod["spec"].get("nodeName") == node
            and pod["metadata"]["uid"] not in self.foreign
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]


def names(pod: Object) -> Devices:
    """Return card and part of each device that a pod's annotations name."""
    return tuple(sorted((device.card, device.part) for device in devices_of(pod)))
