"""The simulated kubelets and device plugins: pods that are bound are admitted, served, run, and end."""

import asyncio
import random
from collections.abc import Container, Coroutine, Iterable, Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters.fields import annotations_of, has_ended, name_of
from deviceshare_lab.world.apiserver import ApiServer, Key, Seen, holds_nothing, key_of
from deviceshare_lab.world.device_plugins import PLUGINS
from deviceshare_lab.world.plugin import VGPU_NODE, Failed, Plugin, amount, holds_lock

ADMISSION = (0.05, 1.0)
"""Seconds that a device plugin takes to serve a container."""
START = (0.1, 2.0)
"""Seconds from the admission of a pod until it runs, and from its deletion until it is gone."""


class _Cache:
    """The cluster as device plugins see it: :class:`.plugin.PodCache`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @property
    def nodes(self) -> Mapping[str, Object]:
        """The nodes by name."""
        return {node["metadata"]["name"]: node for node in self._server.objects("Node")}

    def of(self, node: str) -> list[Object]:
        """Return the pods that are bound to a node, or whose annotation says that it is theirs."""
        return [
            pod
            for pod in self._server.objects("Pod")
            if not holds_nothing(pod)
            and (pod["spec"].get("nodeName") == node or annotations_of(pod).get(VGPU_NODE) == node)
        ]

    async def read_node(self, node: str) -> Object | None:
        """Return a node."""
        return self._server.get("Node", "", node)

    async def annotate(self, pod: Object, written: dict[str, str], account: str) -> None:
        """Write annotations of a pod."""

        def change(found: Object) -> bool:
            if found["metadata"]["uid"] != pod["metadata"]["uid"]:
                return False
            found["metadata"]["annotations"] = {**annotations_of(found), **written}
            return True

        self._server.update(key_of(pod), change, account)

    async def unlock(self, node: str, lock: str, holder: str = "") -> None:
        """Remove a lock from a node, where it stands there and, if it names a pod, names this one."""

        def change(found: Object) -> bool:
            if not holds_lock(found, lock, holder):
                return False
            found["metadata"]["annotations"] = {k: v for k, v in annotations_of(found).items() if k != lock}
            return True

        self._server.update(("Node", "", node), change, "a device plugin")


class _KubeletEndedError(Exception):
    """A kubelet ended after a plugin's answer and before its checkpoint."""


class NodeAgents:
    """The agents of all nodes. ``complaints`` are pods that were not served as their annotations say.

    ``failures`` is the share of calls of device plugins that fail, ``ends`` the share of their answers that a kubelet
    loses: it starts again and requests the same devices again. A kubelet writes the first status of a pod, with
    ``startTime``, when it has admitted it.
    """

    def __init__(self, server: ApiServer, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self.failures = 0.0
        self.ends = 0.0
        self.complaints: list[str] = []
        self.excused: Container[str] = ()
        """Uids of pods that device plugins may refuse: they were bound for cards of a former node."""
        cache = _Cache(server)
        self._plugins = tuple(kind(cache, self._fails) for kind in PLUGINS)
        self._bound: dict[str, list[tuple[str, Key]]] = {}
        """Pods to admit, by node: their uids and names."""
        self._woken: dict[str, asyncio.Event] = {}
        self._known: set[tuple[str, Key]] = set()
        self._saved: dict[tuple[str, Key], set[tuple[str, str]]] = {}
        """The checkpoints of kubelets by uid and name of a pod: containers and resources that plugins have answered."""
        self._asked_again: set[str] = set()
        """Uids of pods for which an answer was lost: their plugin may have nothing left for them."""
        self._deleting: set[tuple[str, Key]] = set()
        """Pods that are admitted, and deleted: by uid and name, since two pods may have one uid."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        server.observers.append(self._seen)

    def _fails(self) -> bool:
        return self.failures > 0.0 and self._chance.random() < self.failures

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.complaints.append(f"a node agent broke: {error!r}")

    def _seen(self, seen: Seen) -> None:
        pod = seen.after
        if seen.kind != "Pod" or pod is None or holds_nothing(pod):
            return
        key, uid, node = key_of(pod), pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if node and (uid, key) not in self._known:
            self._known.add((uid, key))
            if node not in self._bound:
                self._bound[node], self._woken[node] = [], asyncio.Event()
                self._start(self._kubelet(node))
            self._bound[node].append((uid, key))
            self._woken[node].set()
        if "deletionTimestamp" in pod["metadata"] and (uid, key) not in self._deleting:
            self._deleting.add((uid, key))
            self._start(self._remove(key, uid))

    async def _kubelet(self, node: str) -> None:
        bound, woken = self._bound[node], self._woken[node]
        while True:
            await woken.wait()
            uid, key = bound.pop(self._chance.randrange(len(bound)))
            if not bound:
                woken.clear()
            try:
                await self._admit(node, uid, key)
            except _KubeletEndedError:
                self._asked_again.add(uid)
                bound.append((uid, key))
                woken.set()

    async def _admit(self, node: str, uid: str, key: Key) -> None:
        pod = self._server.peek(*key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName") != node:
            return
        if "deletionTimestamp" in pod["metadata"]:
            return
        saved = self._saved.setdefault((uid, key), set())
        for container in pod["spec"]["containers"]:
            for resource in sorted(container.get("resources", {}).get("limits") or {}):
                plugin = self._plugin_of(node, resource)
                answer = container["name"], resource
                if plugin is None or not amount(container, resource) or answer in saved:
                    continue
                if not await self._serve(plugin, pod, container, resource):
                    self._set_phase(key, uid, "Failed", "UnexpectedAdmissionError")
                    return
                saved.add(answer)
        self._set_phase(key, uid, "Pending")
        self._start(self._run(key, uid))

    def _plugin_of(self, node: str, resource: str) -> Plugin | None:
        if self._server.peek("Node", "", node) is None:
            return None
        return next((plugin for plugin in self._plugins if plugin.serves(node, resource)), None)

    async def _serve(self, plugin: Plugin, pod: Object, container: Object, resource: str) -> bool:
        node, uid, count = pod["spec"]["nodeName"], pod["metadata"]["uid"], amount(container, resource)
        await asyncio.sleep(self._chance.uniform(*ADMISSION))
        current = self._server.peek(*key_of(pod))
        if current is None or current["metadata"]["uid"] != uid or "deletionTimestamp" in current["metadata"]:
            return False
        what = f"{node}: {name_of(pod)}, {resource}: {count}"
        try:
            given = await plugin.allocate(node, resource, count)
        except Failed as failure:
            if not failure.wanted and uid not in self.excused and uid not in self._asked_again:
                self.complaints.append(f"{what}: {failure}")
            return False
        if self.ends > 0.0 and self._chance.random() < self.ends:
            raise _KubeletEndedError
        if given.uid != uid:
            self.complaints.append(f"{what}: got the devices of pod {given.uid}: {given.environment}")
        return True

    async def _run(self, key: Key, uid: str) -> None:
        await asyncio.sleep(self._chance.uniform(*START))
        self._set_phase(key, uid, "Running")
        pod = self._server.peek(*key)
        if pod is not None and (seconds := annotations_of(pod).get("simulation/seconds")):
            await asyncio.sleep(float(seconds))
            self._set_phase(key, uid, "Succeeded")

    def _set_phase(self, key: Key, uid: str, phase: str, reason: str = "") -> None:
        def change(found: Object) -> bool:
            if found["metadata"]["uid"] != uid or has_ended(found):
                return False
            found["status"]["phase"] = phase
            found["status"].setdefault("startTime", self._server.now())
            if reason:
                found["status"]["reason"] = reason
            return True

        self._server.update(key, change, "kubelet")

    async def _remove(self, key: Key, uid: str) -> None:
        ends = self._chance.uniform(*START)
        if (pod := self._server.peek(*key)) is not None and pod["metadata"]["uid"] == uid:
            ends += float(annotations_of(pod).get("simulation/ends", 0.0))
        await asyncio.sleep(ends)
        self._saved.pop((uid, key), None)
        found = self._server.peek(*key)
        if found is not None and found["metadata"]["uid"] == uid:
            self._server.delete(key, "kubelet")

    def waiting(self, pods: Iterable[Object]) -> list[Object]:
        """Return the bound pods that do not run yet."""
        return [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending"]
