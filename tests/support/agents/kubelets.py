"""The kubelets: each admits the pods of its node one after the other, container by container, and lets them run.

The order of those that are bound at the same time is random, as kubelet's is.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Self

from deviceshare_lab.clusters.fields import has_ended
from deviceshare_lab.clusters.fields import name_of as name
from deviceshare_lab.world.device_plugins import PLUGINS
from deviceshare_lab.world.plugin import Environment, Failed, Plugin, amount
from support.agents.api import Api, Object, Refused
from support.agents.formats import departures
from support.agents.object_cache import ObjectCache, path


class _KubeletEndedError(Exception):
    """A kubelet ended after a plugin's answer and before its checkpoint."""


class NodeAgents:
    """The agents of all nodes of a cluster, in this process. Use as an async context manager.

    Before a device plugin answers, it takes up to ``delay`` seconds, as does a pod that is admitted until it runs;
    ``failures`` is the share of the plugins' calls that fail, ``ends`` the share of their answers that a kubelet loses:
    it starts again, and requests the same devices again.
    ``ours`` selects the pods that must be in our format, ``forgets`` which pods kubelet never asks any plugin for,
    ``refusable`` which pods a plugin may be unable to serve. ``complaints`` has to stay empty; ``environments`` is what
    the containers got, by the pod's uid.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        delay: float = 0.0,
        failures: float = 0.0,
        ends: float = 0.0,
        seed: int = 0,
        ours: Callable[[Object], bool] = lambda pod: True,
        forgets: Callable[[Object], bool] = lambda pod: False,
        refusable: Callable[[Object], bool] = lambda pod: False,
    ) -> None:
        self.complaints: list[str] = []
        self.environments: dict[str, dict[str, Environment]] = {}
        self.failed: set[str] = set()
        """Pods whose plugin failed because it was to."""
        self._random = random.Random(seed)
        self._delay, self._failures, self._ends, self._ours, self._forgets = delay, failures, ends, ours, forgets
        self._refusable = refusable
        self.slept = 0.0
        """Seconds that all plugins took, one after the other."""
        self._api = Api(kubeconfig)
        self._cache = ObjectCache(self._api, self._changed, lambda pod: None)
        fails = lambda: self._random.random() < self._failures  # noqa: E731
        self._plugins = [kind(self._cache, fails) for kind in PLUGINS]
        self._bound: dict[str, list[str]] = {}
        """Pods that kubelets have to admit, by node."""
        self._woken: dict[str, asyncio.Event] = {}
        self._known: set[str] = set()
        """Pods that a kubelet has heard of."""
        self._saved: set[tuple[str, str, str]] = set()
        """The checkpoints of kubelets: uids, containers and resources of answers of plugins."""
        self.asked_again: set[str] = set()
        """Pods for which an answer was lost: their plugin may have nothing left for them."""
        self._admitting: set[str] = set()
        self._starting: set[str] = set()
        """Pods that are admitted and do not run yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: list[BaseException] = []

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        self._begin(self._cache.follow_nodes())
        self._begin(self._cache.follow_pods())
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._api.__aexit__(*error)
        if self._broken:
            raise self._broken[0]

    @property
    def running(self) -> int:
        """How many pods run."""
        return sum(1 for pod in self._cache.pods.values() if pod.get("status", {}).get("phase") == "Running")

    @property
    def waiting(self) -> list[Object]:
        """The pods that are on no node."""
        return [pod for pod in self._cache.pods.values() if not pod["spec"].get("nodeName") and not has_ended(pod)]

    @property
    def idle(self) -> bool:
        """Whether all pods that are on nodes have been admitted and run, and none is ending."""
        return (
            not self._admitting
            and not self._starting
            and not any("deletionTimestamp" in pod["metadata"] for pod in self._cache.pods.values())
        )

    @property
    def pods(self) -> list[Object]:
        """All pods, as they were heard of last."""
        return list(self._cache.pods.values())

    def _begin(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._broken.append(task.exception())  # type: ignore[arg-type]
            self.complaints.append(f"an agent broke: {task.exception()!r}")

    def _changed(self, pod: Object) -> None:
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if not node or self._forgets(pod):
            return
        if uid not in self._known:
            self._known.add(uid)
            if not has_ended(pod) and pod["status"]["phase"] != "Running":
                if self._ours(pod):
                    self.complaints += [f"{name(pod)} on {node}: {one}" for one in departures(pod)]
                self._admitting.add(uid)
                if node not in self._bound:
                    self._bound[node], self._woken[node] = [], asyncio.Event()
                    self._begin(self._kubelet(node))
                self._bound[node].append(uid)
                self._woken[node].set()
        elif "deletionTimestamp" in pod["metadata"] and uid not in self._admitting:
            self._begin(self._end(pod))

    async def _kubelet(self, node: str) -> None:
        bound, woken = self._bound[node], self._woken[node]
        while True:
            await woken.wait()
            uid = bound.pop(self._random.randrange(len(bound)))
            if not bound:
                woken.clear()
            try:
                await self._admit(node, uid)
            except _KubeletEndedError:
                self.asked_again.add(uid)
                bound.append(uid)
                woken.set()
                continue
            self._admitting.discard(uid)
            pod = self._cache.pods.get(uid)
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                await self._end(pod)

    async def _admit(self, node: str, uid: str) -> None:
        pod = self._cache.pods.get(uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        spec = pod["spec"]
        wrong: list[str] = []
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for resource in sorted(container.get("resources", {}).get("limits") or {}):
                if not amount(container, resource):
                    continue
                answer = uid, container["name"], resource
                for plugin in self._plugins:
                    if answer in self._saved:
                        continue
                    if plugin.serves(node, resource):
                        found = await self._ask(plugin, pod, container, resource)
                        if found is None:
                            await self._cache.set_phase(pod, "Failed", "UnexpectedAdmissionError")
                            return
                        wrong += found
                        self._saved.add(answer)
                    elif plugin.offers(resource):
                        wrong.append(f"{node}: {name(pod)} runs without {resource}, which no plugin registers there")
        self.complaints += wrong
        self._starting.add(uid)
        await self._cache.set_phase(pod, "Pending")
        self._begin(self._start(pod, self._random.uniform(0, self._delay)))

    async def _start(self, pod: Object, seconds: float) -> None:
        """Let a pod run, which takes a while: its images are pulled."""
        await asyncio.sleep(seconds)
        await self._cache.set_phase(pod, "Running")
        self._starting.discard(pod["metadata"]["uid"])

    async def _ask(self, plugin: Plugin, pod: Object, container: Object, resource: str) -> list[str] | None:
        """Let a plugin serve a container; return None where it does not, else what is wrong if the pod runs."""
        node, uid, count = pod["spec"]["nodeName"], pod["metadata"]["uid"], amount(container, resource)
        what = f"{node}: {name(pod)}, container {container['name']}, {resource}: {count}"
        if self._delay:
            seconds = self._random.uniform(0, self._delay)
            self.slept += seconds
            await asyncio.sleep(seconds)
        try:
            served, meant, environment = await plugin.allocate(node, resource, count)
        except Failed as failure:
            if failure.wanted:
                self.failed.add(uid)
            elif not self._refusable(pod) and uid not in self.asked_again:
                self.complaints.append(f"{what}: {failure}")
            return None
        if self._ends and self._random.random() < self._ends:
            raise _KubeletEndedError
        if served != uid:
            other = self._cache.pods.get(served)
            self.complaints.append(f"{what}: got the devices of {name(other) if other else served}: {environment}")
        self.environments.setdefault(uid, {})[container["name"]] = environment
        return [] if meant == container["name"] else [f"{what}: got the devices of container {meant!r}: {environment}"]

    async def _end(self, pod: Object) -> None:
        """The containers have ended: the object goes."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        try:
            await self._api.request("DELETE", path(pod), body)
        except Refused as refusal:
            if refusal.status not in (404, 409):
                raise
