"""Pods of each family with devices in up to three containers and in init containers, on a real API server.

Every container gets what the claim says, or kubelet rejects its pod before it takes another pod's devices. The number
of pods can be raised by the environment; ``make soak`` takes 100 of each family.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from deviceshare_lab.world.plugin import CORES, asked
from support import apiserver as kube
from support import deploy, mixed
from support.agents import NodeAgents
from support.agents.api import Api
from support.apiserver import ApiServer
from support.deployed import Deployed

PODS = int(os.environ.get("DEVICESHARE_CONTAINER_PODS", "12"))
"""Pods of each family."""
DELAY = 0.2
"""Seconds that a device plugin takes, and a pod until it runs, at most."""
AT_ONCE = 6
"""Pods of each family that are there at the same time: those that run or have failed make room."""
PATIENCE = 60.0 + 3.0 * PODS
NAMESPACE = "containers"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events?fieldSelector=reason=DevicePluginLimit"
pytestmark = pytest.mark.timeout(400 + 2 * PATIENCE)

Object = dict[str, Any]
Limits = dict[str, str]


class Family(NamedTuple):
    """What containers of a family's pods ask; ``one_container`` where its plugin serves one container of a pod."""

    asks: tuple[Limits, ...]
    mode: str = ""
    labels: Mapping[str, str] = MappingProxyType({})
    one_container: bool = True


def vgpus(memory: int, *counts: int) -> tuple[Limits, ...]:
    """Return so many vGPUs each."""
    return tuple({"volcano.sh/vgpu-number": str(count), "volcano.sh/vgpu-memory": str(memory)} for count in counts)


CHIP = "huawei.com/Ascend910B3"
FAMILIES = {
    "hami-core": Family(vgpus(1000, 1, 2, 3), "hami-core"),
    "mps": Family(vgpus(1000, 1, 2, 3), "mps"),
    "mig": Family(vgpus(4500, 1, 2), "mig"),
    "gpu-share": Family(tuple({"volcano.sh/gpu-memory": str(memory)} for memory in (600, 700, 800))),
    "gpu-number": Family(tuple({"volcano.sh/gpu-number": str(count)} for count in (1, 2))),
    "hami-vnpu": Family(
        tuple({CHIP: "1", f"{CHIP}-memory": str(memory)} for memory in (16000, 30000)), one_container=False
    ),
    "mindcluster": Family(tuple({CORES: cores} for cores in ("1", "2")), labels=mixed.TASK),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give an API server with nodes of all families, where the GPU plugin runs in both of its strategies."""
    running = ApiServer(kube.binaries(), tmp_path_factory.mktemp("containers") / "kube")
    try:
        running.start()
        deploy.install_all(running, NAMESPACE)
        nodes = 9
        deploy.apply(running, *mixed.config_maps(nodes))
        for node in mixed.nodes(nodes):
            deploy.create_node(running, node)
        yield running
    finally:
        running.stop()


def pod(name: str, family: Family, chance: random.Random) -> Object:
    """Return a pod with one to three containers, and every third time with an init container or a sidecar."""
    annotations = {"volcano.sh/vgpu-mode": family.mode} if family.mode else {}
    made = mixed.pod(name, NAMESPACE, {}, annotations, mixed.SCHEDULER)
    made["metadata"]["labels"] = dict(family.labels)

    def containers(kind: str, count: int) -> list[Object]:
        chosen = [chance.choice(family.asks) for _ in range(count)]
        return [
            {"name": f"{kind}{at}", "image": "busybox", "resources": {"limits": limits, "requests": limits}}
            for at, limits in enumerate(chosen)
        ]

    made["spec"]["containers"] = containers("c", chance.choice((1, 1, 1, 2, 3)))
    if chance.random() < 1 / 3:
        made["spec"]["initContainers"] = containers("i", 1)
        if chance.random() < 1 / 3:
            made["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    # No template has another number of AI cores.
    return made if asked(made, CORES) in (0, 1, 2, 4, 8) else pod(name, family, chance)


def asking(pod: Object) -> list[Object]:
    """Return all containers of a pod."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def refusable(pod: Object) -> bool:
    """Whether the device plugin serves one container of a pod like this, and it has several that ask."""
    family = FAMILIES[pod["metadata"]["name"].rpartition("-")[0]]
    return family.one_container and len(asking(pod)) > 1


async def come_and_go(api: Api, name: str) -> dict[str, str]:
    """Create the pods of a family and delete those that run or have failed. Return the last phase of each."""
    chance = random.Random(name)
    pods = [pod(f"{name}-{number}", FAMILIES[name], chance) for number in range(PODS)]
    ends: dict[str, str] = {}
    alive: set[str] = set()
    end = time.monotonic() + PATIENCE
    while len(ends) < PODS:
        while pods and len(alive) < AT_ONCE:
            made = pods.pop()
            await api.request("POST", PATH, made)
            alive.add(made["metadata"]["name"])
        for each in (await api.request("GET", PATH))["items"]:
            known, phase = each["metadata"]["name"], each["status"]["phase"]
            if known in alive and phase in ("Running", "Failed"):
                ends[known] = phase
                alive.discard(known)
                await api.request("DELETE", f"{PATH}/{known}", {"gracePeriodSeconds": 0})
        assert time.monotonic() < end, f"{name}: still there: {alive}"
        await asyncio.sleep(0.2)
    return ends


async def test_every_container_gets_what_its_claim_says_or_its_pod_is_rejected(
    server: ApiServer, tmp_path: Path
) -> None:
    async with (
        Api(server.kubeconfig()) as api,
        NodeAgents(server.kubeconfig(), delay=DELAY, seed=PODS, refusable=refusable) as agents,
        Deployed(server, tmp_path, {}) as system,
    ):
        try:
            ends = await asyncio.gather(*(come_and_go(api, name) for name in FAMILIES))
        except AssertionError as error:
            error.add_note(system.log)
            raise
        finally:
            print(*agents.complaints, sep="\n")  # noqa: T201
        assert agents.complaints == []
        for family, became in zip(FAMILIES.values(), ends, strict=True):
            assert "Running" in became.values()
            assert ("Failed" in became.values()) == family.one_container
        rejected = {name for became in ends for name, phase in became.items() if phase == "Failed"}
        warned = {event["regarding"]["name"] for event in (await api.request("GET", EVENTS))["items"]}
        assert rejected <= warned
