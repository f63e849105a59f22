"""The whole system on a real API server: nodes of all device families, their device plugins and kubelets, and failures.

Each service runs under its own account, with the manifests' rights and policy and nothing else. The judges read what
the API server says and nothing else. The sizes can be raised by the environment; ``make soak`` runs it with 200 nodes,
2,000 pods, and plugins that take up to 3 seconds.
"""

import asyncio
import os
import random
import sys
import time
import urllib.error
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.objects import violations
from support import apiserver as kube
from support import deploy, history, mixed
from support.agents import NodeAgents
from support.agents.api import Api, Refused
from support.apiserver import ApiServer
from support.deployed import SYSTEM, Deployed
from support.history import History
from support.other_scheduler import LOCKING, TAKING_TURNS, OtherScheduler

NODES = int(os.environ.get("DEVICESHARE_SYSTEM_NODES", "20"))
PODS = int(os.environ.get("DEVICESHARE_SYSTEM_PODS", "120"))
MORE = int(os.environ.get("DEVICESHARE_SYSTEM_MORE", "40"))
DELAY = float(os.environ.get("DEVICESHARE_SYSTEM_DELAY", "0.5"))
"""Seconds that a device plugin takes, at most."""
FAILURES = 0.02
"""Share of the device plugins' calls that fail."""
PATIENCE = 60 + PODS / 10 + 10 * DELAY
"""Seconds until all pods have to be bound and served."""
FAULTS = os.environ.get(
    "DEVICESHARE_SYSTEM_FAULTS", "inventory,placement,binder,metrics,bus,apiserver,expired,silence,scheduler"
).split(",")
"""What breaks, one after the other."""
BATCH = max(16, PODS // 10)
"""Pods that come, and as many that go, while it breaks."""
FOREIGN = max(1, NODES // 50)
"""Pods of each family that another scheduler places."""
SILENCE = 5.0
"""Seconds; a watch that says nothing for so long is begun anew."""
WHOLE = 30 + 40 * DELAY
"""Seconds from the first binding of a gang to its last: its pods wait for device plugins, on a busy machine too."""
STARTING = 30.0
"""Seconds in which an API server that is started again refuses what it allows later: it reads its rules."""
pytestmark = pytest.mark.timeout(600 + 2 * PODS)
NAMESPACE = "work"

Object = dict[str, Any]


class Cluster:
    """A cluster at work: an API server, the system, the agents of all nodes, and a judge."""

    def __init__(self, server: ApiServer, api: Api, system: Deployed, agents: NodeAgents, judge: History) -> None:
        self.server, self.api, self.system, self.agents, self.judge = server, api, system, agents, judge
        self._created = self._alive = self._foreign = 0
        self._random = random.Random(1)
        self._restarts: list[float] = []

    async def create_pods(self, count: int) -> float:
        """Create so many pods, with their PodGroups; return when it was begun."""
        began = time.monotonic()
        objects = list(mixed.workloads(self._created, count, NAMESPACE))
        for obj in objects:
            if obj["kind"] == "PodGroup":
                self.judge.gang(obj)
        self._created += count
        self._alive += count
        await create(self.api, objects)
        return began

    async def delete_pods(self, share: float) -> None:
        """Delete pods at random, as a user does: the kubelets end them."""
        pods = self._random.sample(self.agents.pods, int(self._alive * share))
        for pod in pods:
            await self.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        self._alive -= len(pods)

    async def strike(self, fault: str) -> None:
        """Let something break."""
        if fault == "silence":
            self.system.proxy.silence()
        elif fault in ("apiserver", "expired"):
            if fault == "expired":
                await asyncio.to_thread(self.server.compact)
            self._restarts.append(time.time())
            await asyncio.to_thread(self.server.restart_apiserver, 0.5)
        elif fault == "scheduler":
            await self._place_foreign(LOCKING)
        else:
            self.system.kill(fault)

    async def wave(self, fault: str) -> None:
        """Let pods go and others come, and something break when some of these are bound; wait until all is well."""
        if fault == "scheduler":
            await self._place_foreign(TAKING_TURNS)
        gone, asked = self.system.proxy.gone, len(self.system.proxy.asked)
        await self.delete_pods(BATCH / self._alive)
        enough = self.judge.bindings + BATCH // 4
        creating = asyncio.create_task(self.create_pods(BATCH))
        until = time.monotonic() + PATIENCE
        while self.judge.bindings < enough:
            assert time.monotonic() < until, self._report()
            await asyncio.sleep(0.02)
        began = time.monotonic()
        await self.strike(fault)
        await creating
        await self.settled(fault, began)
        if fault == "expired":  # a watch of a kind that rarely changes may still back off
            while self.system.proxy.gone == gone:
                assert time.monotonic() < began + PATIENCE, "the API server did not say 410"
                await asyncio.sleep(0.1)
        if fault == "silence":
            resumed = self.system.proxy.asked[asked:]
            assert any(path.endswith("/pods") and "watch" in query for path, query in resumed)

    async def settled(self, what: str, began: float) -> None:
        """Wait until all pods are bound and served, without complaints of the agents."""
        while len(self.agents.pods) != self._alive or self.agents.waiting or not self.agents.idle:
            assert not self.agents.complaints, "\n".join(self.agents.complaints[:20])
            if time.monotonic() > began + PATIENCE or self.system.has_ended:
                raise AssertionError(f"{what}: {self._report()}")
            await asyncio.sleep(0.1)
        assert self.agents.complaints == []
        await self._check()
        torn = max(self.judge.torn().values(), default=0.0)
        seconds = time.monotonic() - began
        report(f"{what}: {self._alive} pods bound and served after {seconds:.1f} s; gangs torn {torn:.1f} s at most")

    async def _check(self) -> None:
        """Judge what the API server says, and has said."""
        nodes, pods = [(await self.api.request("GET", f"/api/v1/{kind}"))["items"] for kind in ("nodes", "pods")]
        assert violations(nodes, pods, device_config=device_config()) == []
        for pod in pods:
            assert pod["spec"].get("nodeName"), pod
            uid, phase = pod["metadata"]["uid"], pod["status"]["phase"]
            assert phase == ("Failed" if uid in self.agents.failed else "Running"), pod
            asking = {one["name"] for one in pod["spec"]["containers"] if "limits" in one.get("resources", {})}
            if phase == "Running":
                assert set(self.agents.environments[uid]) == asking
        assert self.judge.wrong == []
        assert {gang: seconds for gang, seconds in self.judge.torn().items() if seconds > WHOLE} == {}

    def check_requests(self) -> None:
        """Judge what the API server was asked: each pod was bound once, and no service made a forbidden request."""
        requests = history.asked(self.server.directory)
        assert history.bound_more_than_once(requests) == []
        bindings = sum(1 for one in requests if one.what.startswith("pods/binding ") and one.code == 201)
        refused = [
            one
            for one in requests
            if one.user.startswith(f"system:serviceaccount:{SYSTEM}:")
            and one.code in (401, 403)
            and not any(0 <= datetime.fromisoformat(one.at).timestamp() - at < STARTING for at in self._restarts)
        ]
        assert refused == []
        report(f"{bindings} bindings, each pod once; {len(requests)} requests in the audit log, none of ours refused")
        report(f"the judge's watch was interrupted {self.judge.gaps} times")

    async def _place_foreign(self, formats: Iterable[Any]) -> None:
        other = OtherScheduler(self.api, NAMESPACE, Parts(device_config()), 0.5 + DELAY / 2)

        async def place(plugin_format: Any) -> None:
            for number in range(FOREIGN):
                self._alive += 1
                self._foreign += 1
                await other.place(f"foreign-{self._foreign}", plugin_format, number)

        await asyncio.gather(*map(place, formats))

    def _report(self) -> str:
        waiting = self.agents.waiting
        reasons = [
            f"{pod['metadata']['name']}: {condition.get('message', condition)}"
            for pod in waiting
            for condition in pod["status"].get("conditions", [{"message": "no condition"}])
        ]
        return "\n".join([f"{len(waiting)} pods wait; idle: {self.agents.idle}", *reasons[:20], self.system.log])


def report(text: str) -> None:
    """Write a line of progress for long runs (``pytest -s``)."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def device_config() -> str:
    return str(yaml.safe_load(mixed.DEVICE_CONFIG.read_text())["data"]["device-config.yaml"])


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Cluster]:
    """Give a cluster of so many nodes, with everything installed and at work."""
    at = directory / "kube"
    at.mkdir()
    server = ApiServer(kube.binaries(), at, *history.audit_options(at))
    try:
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(deploy.install_all, server, NAMESPACE)
        async with (
            Api(server.kubeconfig()) as api,
            NodeAgents(server.kubeconfig(), delay=DELAY, failures=FAILURES, ours=is_ours) as agents,
            History(api, Parts(device_config())) as judge,
            Deployed(server, directory, {"inventory": ["--watch-silence", str(SILENCE)]}) as system,
        ):
            await create(api, [*mixed.config_maps(NODES), *mixed.nodes(NODES)])
            yield Cluster(server, api, system, agents, judge)
    finally:
        server.stop()


def is_ours(pod: Object) -> bool:
    return bool(pod["spec"]["schedulerName"] == mixed.SCHEDULER)


async def create(api: Api, objects: Iterable[Object]) -> None:
    """Create objects, 16 at a time."""
    limit = asyncio.Semaphore(16)

    async def one(obj: Object) -> None:
        plural = {"ConfigMap": "configmaps", "Node": "nodes", "Pod": "pods", "PodGroup": "podgroups"}[obj["kind"]]
        root = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        namespace = obj["metadata"].get("namespace")
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        async with limit:
            try:
                await api.request("POST", path, obj)
            except Refused as refusal:
                if refusal.status != 409:  # the server was killed after it had done it
                    raise
            if "status" in obj:
                await api.patch(f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})

    await asyncio.gather(*map(one, objects))


async def test_all_families_are_bound_and_served_despite_failures(tmp_path: Path) -> None:
    async with cluster(tmp_path) as there:
        await there.settled("all", await there.create_pods(PODS))
        for fault in filter(None, FAULTS):
            await there.wave(fault)
        await there.delete_pods(0.3)
        await there.settled("again", await there.create_pods(MORE))
        there.check_requests()
        metadata = there.agents.pods[0]["metadata"]
        forged = {"metadata": {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1,0:"}}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{metadata['name']}"
        with pytest.raises(urllib.error.HTTPError, match="403"):  # the policy was in force
            there.server.request("PATCH", path, forged, "application/merge-patch+json")
