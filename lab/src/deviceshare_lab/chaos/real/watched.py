"""The nodes and pods of a run as a watch shows them, for the checker and the faults."""

from collections.abc import Callable

import msgspec
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.pods import BoundPods, Report
from deviceshare_lab.clusters.fields import Object


class Watched:
    """The nodes and pods. The pods of ``bound.exempt`` are those that another scheduler bound."""

    def __init__(self, cluster: LocalCluster, report: Report, parts: Parts) -> None:
        self._cluster = cluster
        self.nodes: dict[str, Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.bound = BoundPods(report, self.nodes.get, parts)
        self.seen: Callable[[Object], None] = lambda pod: None
        """Hears of each pod that was created or has changed."""
        self.changes = 0
        """How many changes of nodes and pods were seen."""

    async def run(self) -> None:
        """Follow without end."""
        async for batch in self._cluster.watch(("Node", "Pod")):
            changes = [change for change in batch if isinstance(change, Change)]
            self.changes += len(changes)
            for node in sorted({self._take(change) for change in changes} - {""}):
                self.bound.check_cards(node)

    def _take(self, change: Change) -> str:
        """Take a change; return the node to which a pod was bound by it, '' for none."""
        obj: Object | None = msgspec.json.decode(change.raw) if change.type is ChangeType.APPLIED else None
        if change.kind == "Node":
            self.nodes.pop(change.name, None)
            if obj is not None:
                self.nodes[change.name] = obj
            return ""
        key = change.namespace, change.name
        before = self.pods.pop(key, None)
        if before is not None and (obj is None or obj["metadata"]["uid"] != before["metadata"]["uid"]):
            self.bound.drop(before)
        if obj is None:
            return ""
        self.pods[key] = obj
        self.seen(obj)
        return str(obj["spec"]["nodeName"]) if self.bound.take(obj) else ""
