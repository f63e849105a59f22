"""The agents' view of the cluster, by watches, and their writes."""

from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

from deviceshare_lab.clusters.fields import annotations_of as annotations
from deviceshare_lab.world.plugin import VGPU_NODE, holds_lock
from support.agents.api import Api, Object


def path(pod: Object) -> str:
    """Return where a pod stands."""
    return f"/api/v1/namespaces/{quote(pod['metadata']['namespace'])}/pods/{quote(pod['metadata']['name'])}"


class ObjectCache:
    """All pods and nodes; ``changed`` hears of every pod that changed, and of one that is gone with ``gone``."""

    def __init__(self, api: Api, changed: Callable[[Object], None], gone: Callable[[Object], None]) -> None:
        self.api = api
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, Object] = {}
        self._by_node: dict[str, dict[str, Object]] = {}
        self._changed, self._gone = changed, gone

    def of(self, node: str) -> list[Object]:
        """Return the pods that are bound to a node, or whose annotation says that it is theirs."""
        return list(self._by_node.get(node, {}).values())

    async def follow_pods(self) -> None:
        """Watch pods, for ever."""
        async for kind, pod in self.api.follow("/api/v1/pods"):
            if kind == "LISTED":
                for uid in set(self.pods) - {one["metadata"]["uid"] for one in pod["items"]}:
                    self._drop(self.pods[uid])
            elif kind == "DELETED":
                self._drop(pod)
            else:
                self.learn(pod)

    async def follow_nodes(self) -> None:
        """Watch nodes, for ever."""
        async for kind, node in self.api.follow("/api/v1/nodes"):
            if kind == "DELETED":
                self.nodes.pop(node["metadata"]["name"], None)
            elif kind != "LISTED":
                self.nodes[node["metadata"]["name"]] = node

    def learn(self, pod: Object) -> None:
        """Take a pod as it is now, if it is newer than what we know."""
        uid = pod["metadata"]["uid"]
        known = self.pods.get(uid)
        if known is not None:
            if int(known["metadata"]["resourceVersion"]) >= int(pod["metadata"]["resourceVersion"]):
                return
            self._unindex(known)
        self.pods[uid] = pod
        for node in self._nodes_of(pod):
            self._by_node.setdefault(node, {})[uid] = pod
        self._changed(pod)

    async def read_node(self, node: str) -> Object | None:
        """Return a node as the API server has it."""
        return await self.api.get(f"/api/v1/nodes/{node}")

    async def annotate(self, pod: Object, written: dict[str, str], account: str) -> None:
        """Write annotations of a pod as the service account of a device plugin."""
        body = {"metadata": {"uid": pod["metadata"]["uid"], "annotations": written}}
        if (found := await self.api.patch(path(pod), body, f"system:serviceaccount:kube-system:{account}")) is not None:
            self.learn(found)

    async def set_phase(self, pod: Object, phase: str, reason: str = "") -> None:
        """Write a pod's phase, and when its kubelet first wrote its status."""
        known = self.pods.get(pod["metadata"]["uid"], pod)["status"]
        started = known.get("startTime") or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"phase": phase, "reason": reason or None, "startTime": started}
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        if (found := await self.api.patch(f"{path(pod)}/status", body)) is not None:
            self.learn(found)

    async def unlock(self, node: str, lock: str, holder: str = "") -> None:
        """Take a lock from a node, where it stands there and, if it names a pod, names this one.

        Whose it is is looked at once, as by the plugins: who has it a moment later loses it.
        """
        found = await self.api.get(f"/api/v1/nodes/{node}")
        if found is None or not holds_lock(found, lock, holder):
            return
        while (found := await self.api.get(f"/api/v1/nodes/{node}")) is not None:
            metadata = {"annotations": {lock: None}, "resourceVersion": found["metadata"]["resourceVersion"]}
            if await self.api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata}) is not None:
                return

    def _drop(self, pod: Object) -> None:
        known = self.pods.pop(pod["metadata"]["uid"], None)
        if known is not None:
            self._unindex(known)
            self._gone(known)

    def _unindex(self, pod: Object) -> None:
        for node in self._nodes_of(pod):
            self._by_node.get(node, {}).pop(pod["metadata"]["uid"], None)

    def _nodes_of(self, pod: Object) -> set[str]:
        return {pod["spec"].get("nodeName", ""), annotations(pod).get(VGPU_NODE, "")} - {""}
