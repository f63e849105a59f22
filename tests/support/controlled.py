"""A local cluster with its controllers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from deviceshare_localcluster import Controller, LocalCluster


@asynccontextmanager
async def controlled(cluster: LocalCluster) -> AsyncIterator[None]:
    task = asyncio.create_task(Controller(cluster).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
