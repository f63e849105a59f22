"""A burst of pods into a small cluster: memory is bounded, older pods come first, slow readers recover.

`make soak` runs it with 100,000 pods.
"""

import asyncio
import math
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import LAG
from deviceshare_cli.ports import free_port
from support.bus_users import connect_to_run
from support.manifests import node
from support.running import RunningSystem, http_get

PODS = int(os.environ.get("DEVICESHARE_BURST_PODS", "1500"))
"""Pods of the burst."""
NODES, CARDS = 2, 8
OLD = 8
"""Pods that wait before the burst."""
CHUNK = 500
SERVICES = ("inventory", "placement", "binder", "metrics")
START = 160
"""MiB that a service may have without pods, on any machine."""
PER_POD = 9.0
"""KiB that a service may have for a waiting pod and its explanation: 1 GiB for 100,000."""
SECOND = 1.1
"""The resolution of creation times, and a little more: pods of one second have no order."""
pytestmark = pytest.mark.timeout(400 + PODS // 10)


def whole_card(name: str) -> dict[str, Any]:
    """Return a pod that requests a whole card."""
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "81920", "volcano.sh/vgpu-cores": "100"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "schedulerName": "deviceshare",
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
    }


def memory(pid: int) -> float:
    """Return the peak of a process's resident memory in MiB."""
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(peak) / 1024


@asynccontextmanager
async def burst(tmp_path: Path) -> AsyncIterator[RunningSystem]:
    """Start a system whose cards are all taken, with some pods that wait, and then many more."""
    async with RunningSystem(tmp_path, None, "--metrics-port", str(free_port())) as system:
        await system.cluster.load([node(number) for number in range(NODES)])
        await system.cluster.load([whole_card(f"running-{number}") for number in range(NODES * CARDS)])
        await system.bound(system.cluster, NODES * CARDS, within=200)
        await system.cluster.load([whole_card(f"old-{number}") for number in range(OLD)])
        await until(lambda: waiting(system, OLD), 60)
        await asyncio.sleep(SECOND)
        yield system


async def create(system: RunningSystem) -> None:
    for start in range(0, PODS, CHUNK):
        await system.cluster.make([whole_card(f"burst-{number}") for number in range(start, min(start + CHUNK, PODS))])


async def until(condition: Any, within: float) -> None:
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.2)


async def waiting(system: RunningSystem, count: int) -> bool:
    """Return whether the cluster shows why so many pods wait."""
    explained = 0
    for pod in await system.cluster.list("Pod"):
        conditions = pod.get("status", {}).get("conditions", [])
        explained += any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
    return explained >= count


async def bound_pods(system: RunningSystem) -> set[str]:
    return {pod["metadata"]["name"] for pod in await system.cluster.list("Pod") if pod["spec"].get("nodeName")}


def read_metrics(run: dict[str, Any]) -> str:
    return http_get(run, "/metrics").decode()


async def lag(run: dict[str, Any]) -> float:
    """Return how many sequences the metrics service is behind on any stream; infinity until it is connected again."""
    text = await asyncio.to_thread(read_metrics, run)
    lags = re.findall(r"deviceshare_bus_lag_messages\{[^}]*\} (\S+)", text)
    return max(map(float, lags), default=math.inf)


async def test_a_burst_does_not_starve_older_pods_nor_exhaust_memory(tmp_path: Path) -> None:
    async with burst(tmp_path) as system:
        await create(system)
        patience = 60 + PODS / 20
        await until(lambda: waiting(system, OLD + PODS), patience)
        pids = {name: system.process(name) for name in SERVICES}
        used = {name: memory(pid) for name, pid in pids.items()}
        assert all(mib < START + PER_POD * PODS / 1024 for mib in used.values()), used
        # Cards become free one after the other: the pods that waited before the burst get them.
        for number in range(OLD):
            await system.cluster.delete("Pod", "default", f"running-{number}")
        await system.bound(system.cluster, NODES * CARDS, within=200)
        bound = await bound_pods(system)
        assert {name for name in bound if name.startswith("old-")} == {f"old-{number}" for number in range(OLD)}, bound
        assert not [name for name in bound if name.startswith("burst-")]
        # And then a pod of the burst.
        await system.cluster.delete("Pod", "default", "running-8")
        await system.bound(system.cluster, NODES * CARDS, within=200)
        assert [pod for pod in await bound_pods(system) if pod.startswith("burst-")]
        assert {name: system.process(name) for name in SERVICES} == pids, "no service ended"


async def test_a_service_that_is_suspended_during_a_burst_is_reported_and_recovers(tmp_path: Path) -> None:
    async with burst(tmp_path) as system:
        slow = {name: system.process(name) for name in ("metrics", "binder")}
        for pid in slow.values():
            os.kill(pid, signal.SIGSTOP)
        connection = await connect_to_run(system.run, "reader")
        try:
            await create(system)
            # The others do not wait: inventory and placement handle the whole burst.

            async def explained() -> bool:
                info = await connection.jetstream.stream_info(Stream.EXPLAIN)
                return info.state.messages >= PODS

            await until(explained, 60 + PODS / 20)
            await asyncio.sleep(LAG + 1)
            for pid in slow.values():
                os.kill(pid, signal.SIGCONT)
            resumed = time.monotonic()
            # The first scrape says how far behind it is; then it catches up, in the same process.

            async def caught_up() -> bool:
                return await lag(system.run) == 0

            await until(caught_up, 60 + PODS / 50)
            await until(lambda: waiting(system, OLD + PODS), 60 + PODS / 20)
            assert {name: system.process(name) for name in slow} == slow, "none ended"
            text = await asyncio.to_thread(read_metrics, system.run)
            (below,) = re.findall(r'event_loop_lag_seconds_bucket\{le="5.0"[^}]*\} (\S+)', text)
            (every,) = re.findall(r"event_loop_lag_seconds_count\{[^}]*\} (\S+)", text)
            assert float(every) > float(below), "the pause is reported"
            assert time.monotonic() - resumed < 120 + PODS / 10
        finally:
            await connection.close()
