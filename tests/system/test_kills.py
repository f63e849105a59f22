"""``kill -9`` of any process during the work: it is restarted, and the result is valid and complete.

Everything is real: ``deviceshare up`` as a user starts it, its four services and two nats-servers. Each process of one
system is killed while it works on new pods. The judge reads the cluster's objects only. The sizes can be raised by the
environment.
"""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster.interface import Change, Cluster
from deviceshare_lab.checker.objects import violations
from support.manifests import node, pod, pod_group
from support.running import RunningSystem

NODES = int(os.environ.get("DEVICESHARE_KILL_NODES", "100"))
PODS = int(os.environ.get("DEVICESHARE_KILL_PODS", "400"))
"""Pods that are created before each kill."""
GANG = 4
GANGS = PODS // 30

VICTIMS = ["inventory", "placement", "binder", "metrics", "bus", "cluster"]


class BoundPods:
    """The names of the bound pods, by a watch, so that a process can be killed as soon as some are bound."""

    def __init__(self, cluster: Cluster) -> None:
        self.names: set[str] = set()
        self._cluster = cluster
        self._more = asyncio.Event()

    async def follow(self) -> None:
        """Follow the pods until the task is cancelled."""
        async for batch in self._cluster.watch(["Pod"]):
            changes = [each for each in batch if isinstance(each, Change)]
            self.names |= {each.name for each in changes if json.loads(each.raw)["spec"].get("nodeName")}
            self._more.set()

    async def reach(self, count: int, log: RunningSystem) -> None:
        """Wait until so many pods are bound."""
        try:
            async with asyncio.timeout(200):
                while len(self.names) < count:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"{len(self.names)} of {count} pods are bound\n{log.log}") from None


@pytest.mark.timeout(1200)
async def test_each_process_is_killed_in_the_middle_of_the_work(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path) as system:
        cluster, created = system.cluster, 0
        bound = BoundPods(cluster)
        following = asyncio.create_task(bound.follow())
        await cluster.load([node(number) for number in range(NODES)])
        for victim in VICTIMS:
            while True:  # until it is killed while pods wait: on a busy machine they may be bound as fast as they come
                groups = [f"gang-{created}-{number}" for number in range(GANGS)]
                members = [group for group in groups for _ in range(GANG)] + [None] * (PODS - GANG * GANGS)
                await cluster.load([pod_group(name, GANG) for name in groups])
                await cluster.load([pod(created + number, group=group) for number, group in enumerate(members)])
                await bound.reach(created + PODS // 5, system)
                created += PODS
                if len(bound.names) < created:
                    break
            killed = system.process(victim)
            os.kill(killed, signal.SIGKILL)
            await bound.reach(created, system)
            await system.restarted(victim, killed)
            nodes, pods, *others = [await cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
            assert violations(nodes, pods, *others) == [], victim
            assert {each["metadata"]["name"] for each in pods} == bound.names, victim
            assert len(pods) == created, victim
        await end(following)
