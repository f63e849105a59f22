"""Any stream is deleted or emptied in the middle of the work: all pods are bound, nothing needs a repair by hand.

Everything is real: ``deviceshare up`` as a user starts it. The judge reads the cluster's objects only.
"""

import os
import time
from pathlib import Path

from deviceshare_bus.messages.subjects import Stream
from deviceshare_lab.checker.objects import violations
from support.bus_users import connect_to_run
from support.manifests import node, pod
from support.running import RunningSystem

ALL = [(stream, how) for stream in Stream for how in ("deleted", "emptied")]
SOME = [
    (Stream.LEDGER, "deleted"),
    (Stream.CLUSTER, "emptied"),
    (Stream.OUTCOME, "deleted"),
    (Stream.EXPLAIN, "deleted"),
]
LOSSES = ALL if os.environ.get("DEVICESHARE_CHAOS") else SOME
NODES = 40
PODS = 60


async def test_any_stream_may_be_lost_in_the_middle_of_the_work(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path, DEVICESHARE_BUS_HOLD="3") as system:
        cluster = system.cluster
        await cluster.load([node(number) for number in range(NODES)])
        bus = await connect_to_run(system.run, "admin")
        total = 0
        for stream, how in LOSSES:
            await cluster.load([pod(number) for number in range(total, total + PODS)])
            await system.bound(cluster, total + PODS // 4, within=200)
            if how == "deleted":
                await bus.jetstream.delete_stream(stream)
            else:
                await bus.jetstream.purge_stream(stream)
            lost = time.monotonic()
            total += PODS
            await system.bound(cluster, total, within=200)
            await cluster.load([pod(total)])
            total += 1
            await system.bound(cluster, total, within=200)
            took = time.monotonic() - lost
            assert took < 60, (stream, how, system.log)
            nodes, pods, events, groups = [await cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
            assert violations(nodes, pods, events, groups) == [], (stream, how)
        await bus.close()
