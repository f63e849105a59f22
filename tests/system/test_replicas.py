"""Replicas of all services as processes: they divide the work, and continue when one is suspended or ended."""

import asyncio
import os
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from deviceshare_bus.messages.codec import decode_ledger
from deviceshare_bus.messages.leases import PERIOD, decode_lease
from deviceshare_bus.messages.subjects import Stream, of_replicas
from deviceshare_bus.streams.follower import Follower
from support.bus_users import connect_to_run
from support.manifest import manifest
from support.manifests import node, pod
from support.running import RunningSystem

QUEUES = [f"team-{number}" for number in range(6)]


def queue(name: str) -> dict[str, Any]:
    return manifest("Queue", {"name": name}, spec={"weight": 1})


def pod_of(number: int, queue_name: str) -> dict[str, Any]:
    made = pod(number)
    made["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue_name
    return made


async def deciders(run: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return by queue how many claims each replica of placement has made; no pod may have two claims."""
    connection = await connect_to_run(run, "reader")
    try:
        messages = await Follower(connection, Stream.LEDGER).read_to_end()
    finally:
        await connection.close()
    claims = [
        claim
        for message in messages
        if not of_replicas(message.subject)
        for claim in decode_ledger(message.data).claims
    ]
    assert max(Counter(claim.uid for claim in claims).values()) == 1
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for claim in claims:
        found[claim.queue][claim.decided_by] += 1
    return found


async def joined(run: dict[str, Any], members: int) -> None:
    """Wait until so many replicas of placement name one another."""
    connection = await connect_to_run(run, "reader")
    try:
        async with asyncio.timeout(60):
            while True:
                messages = await Follower(connection, Stream.LEDGER).read_to_end()
                leases = [decode_lease(each.data) for each in messages if each.subject.startswith("ledger.lease.")]
                if len(leases) == members and all(len(lease.members) == members - 1 for lease in leases):
                    return
                await asyncio.sleep(0.2)
    finally:
        await connection.close()


async def test_replicas_divide_the_work_and_continue_without_one_of_them(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path, None, "--replicas", "placement=3,binder=2,inventory=2") as system:
        await system.cluster.load([*map(queue, QUEUES), *(node(number) for number in range(10))])
        await joined(system.run, 3)
        await system.cluster.load([pod_of(number, QUEUES[number % 6]) for number in range(60)])
        await system.bound(system.cluster, 60, within=200)
        found = await deciders(system.run)
        assert all(len(by) == 1 for by in found.values()), "each queue has one owner"
        assert len({name for by in found.values() for name in by}) > 1, "the queues are divided"

        # One is suspended: another one decides for its queues. It continues when it is resumed.
        (owner,) = found[QUEUES[0]]
        os.kill(system.process(owner), signal.SIGSTOP)
        created = time.monotonic()
        await system.cluster.load([pod_of(60 + number, QUEUES[0]) for number in range(5)])
        await system.bound(system.cluster, 65, within=200)
        assert time.monotonic() - created < 3 * PERIOD + 5, "within three periods; five seconds for a busy machine"
        os.kill(system.process(owner), signal.SIGCONT)
        assert len((await deciders(system.run))[QUEUES[0]]) == 2

        # Of each service one is killed, and one is stopped; both are started again.
        for name, number in (
            ("placement-1", signal.SIGKILL),
            ("binder-1", signal.SIGKILL),
            ("inventory-1", signal.SIGKILL),
            ("placement-2", signal.SIGTERM),
            ("binder-2", signal.SIGTERM),
            ("inventory-2", signal.SIGTERM),
        ):
            os.kill(system.process(name), number)
            await asyncio.sleep(0.2)
        await system.cluster.load([pod_of(65 + number, QUEUES[number % 6]) for number in range(35)])
        await system.bound(system.cluster, 100, within=200)
        found = await deciders(system.run)
        assert sum(by.total() for by in found.values()) == 100
