"""Three nats-servers: the leader of LEDGER is killed or paused under load, and nothing is lost.

Everything is real: ``deviceshare up --bus-servers 3``. ``DEVICESHARE_LEADER_FAULTS`` raises the number of faults;
``make chaos`` injects 20.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.wire.connection import Connection
from deviceshare_lab.checker.objects import violations
from nats.errors import Error as NatsError
from support.bus_users import connect_to_run
from support.manifests import node, pod
from support.running import RunningSystem

FAULTS = int(os.environ.get("DEVICESHARE_LEADER_FAULTS", "4"))
LONGEST = 10 if FAULTS >= 20 else 25
"""Seconds until the first new binding, at most. The election of a leader takes nats-server four to nine of them; the
short run of `make test-system` has to share its machine with other tests."""
NODES = 60
PODS = 40
PAUSE = 12.0 if FAULTS >= 20 else 0.0
"""Seconds of a pause, at least: longer than the election of another leader takes. It ends only after all pods have been
bound."""


async def leader(bus: Connection) -> str:
    """Return the name of the server that leads LEDGER, when all replicas of all streams are current."""
    async with asyncio.timeout(60):
        while True:
            try:
                found = [(await bus.jetstream.stream_info(stream)).cluster for stream in Stream]
            except (NatsError, OSError):
                found = []
            if found and all(
                each and each.leader and all(one.current for one in each.replicas or []) for each in found
            ):
                return str(found[list(Stream).index(Stream.LEDGER)].leader)
            await asyncio.sleep(0.2)


async def bound_pods(system: RunningSystem) -> int:
    return sum(1 for each in await system.cluster.list("Pod") if each["spec"].get("nodeName"))


@pytest.mark.timeout(400 + 30 * FAULTS)
async def test_the_leader_fails_under_load(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path, None, "--bus-servers", "3") as system:
        cluster = system.cluster
        await cluster.load([node(number) for number in range(NODES)])
        bus = await connect_to_run(system.run, "reader")
        total = 0
        recoveries: list[float] = []
        for fault in range(FAULTS):
            pods = [pod(number) for number in range(total, total + PODS)]
            await cluster.load(pods[: PODS // 2])
            total += PODS // 2
            await system.bound(cluster, total, within=200)
            assert (await bus.jetstream.stream_info(Stream.LEDGER)).config.num_replicas == 3
            victim = system.process(await leader(bus))
            os.kill(victim, signal.SIGSTOP if fault % 2 else signal.SIGKILL)
            failed = time.monotonic()
            await cluster.load(pods[PODS // 2 :])
            await system.bound(cluster, total + 1, within=200)
            recoveries.append(round(time.monotonic() - failed, 1))
            what = "paused" if fault % 2 else "killed"
            sys.stderr.write(f"fault {fault + 1}, {what}: first binding after {recoveries[-1]} s\n")
            total = total - PODS // 2 + PODS
            await system.bound(cluster, total, within=200)
            if fault % 2:
                await asyncio.sleep(max(0.0, failed + PAUSE - time.monotonic()))
                os.kill(victim, signal.SIGCONT)
        nodes, pods_now, events, groups = [await cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
        assert violations(nodes, pods_now, events, groups) == []
        assert await bound_pods(system) == total
        await bus.close()
        assert max(recoveries) < LONGEST, recoveries
