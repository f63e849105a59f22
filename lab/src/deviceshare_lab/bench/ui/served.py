"""The HTTP server of the metrics service over a synthetic cluster that changes at a given rate."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from deviceshare_bus.runtime.garbage import rarely_collect
from deviceshare_metrics.server import Server, serve

from deviceshare_lab.bench.ui.synthetic import SyntheticCluster

PAUSE = 0.01
"""Seconds between two groups of changes."""


class Served(NamedTuple):
    """A running server; ``cluster`` may be changed."""

    url: str
    cluster: SyntheticCluster
    server: Server


@asynccontextmanager
async def served(cluster: SyntheticCluster, port: int = 0) -> AsyncIterator[Served]:
    """Serve a cluster on 127.0.0.1."""
    gc.collect()
    rarely_collect()
    server = Server(cluster.core, lambda: True)
    recording = asyncio.create_task(server.dashboard.record(time.time))
    runner = await serve(server.app(), "127.0.0.1", port)
    try:
        host, at, *_ = runner.addresses[0]
        yield Served(f"http://{host}:{at}", cluster, server)
    finally:
        recording.cancel()
        await runner.cleanup()


async def keep_changing(cluster: SyntheticCluster, changes_per_second: float) -> None:
    """Change the cluster until cancelled; time that the event loop was busy is made up for."""
    started, done = time.monotonic(), 0
    while True:
        await asyncio.sleep(PAUSE)
        due = int((time.monotonic() - started) * changes_per_second)
        while done < due:
            cluster.change()
            done += 1
        cluster.pass_time(PAUSE)
