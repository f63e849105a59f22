"""``kill -9`` of any process during the work: it is restarted, and the result is valid and complete.

Everything is real: ``deviceshare up`` as a user starts it, its four services and two nats-servers. The judge reads the
cluster's objects only. The sizes can be raised by the environment.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from deviceshare_lab.chaos.checkers.objects import violations
from support.manifests import node, pod, podgroup
from support.running import RunningSystem

NODES = int(os.environ.get("DEVICESHARE_KILL_NODES", "100"))
PODS = int(os.environ.get("DEVICESHARE_KILL_PODS", "1500"))
GANG = 4
GANGS = PODS // 30

VICTIMS = ["inventory", "placement", "binder", "metrics", "bus", "cluster"]


@pytest.mark.parametrize("victim", VICTIMS)
async def test_killed_in_the_middle_of_the_work(victim: str, tmp_path: Path) -> None:
    async with RunningSystem(tmp_path) as system:
        cluster = system.cluster
        await cluster.load([node(number) for number in range(NODES)])
        await cluster.load([podgroup(f"gang-{number}", GANG) for number in range(GANGS)])
        in_gangs = range(GANG * GANGS)
        pods = [pod(number, group=f"gang-{number // GANG}" if number in in_gangs else None) for number in range(PODS)]
        await cluster.load(pods)
        await system.bound(system.cluster, PODS // 5, within=200)
        killed = system.process(victim)
        os.kill(killed, signal.SIGKILL)
        await system.bound(system.cluster, PODS, within=200)
        await asyncio.sleep(1.5)
        assert system.process(victim) != killed
        nodes, pods_now, events, groups = [await cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
        assert violations(nodes, pods_now, events, groups) == []
        assert {one["metadata"]["name"] for one in pods_now} == {one["metadata"]["name"] for one in pods}
