"""Work that runs beside a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from deviceshare_bus.wire.tasks import end


@asynccontextmanager
async def beside(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines beside a block, and end them with it; an error of one fails the test."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        await end(*tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
