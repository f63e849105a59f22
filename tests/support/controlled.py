"""A local cluster with its controllers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
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


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.02)
