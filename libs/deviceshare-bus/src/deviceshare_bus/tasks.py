"""Ending tasks for certain."""

import asyncio
from typing import Any


async def end(*tasks: asyncio.Future[Any], every: float = 0.5) -> None:
    """Cancel tasks until all of them are done, again after ``every`` seconds.

    Once is not enough: on Python 3.11 ``asyncio.wait_for``, which nats-py uses, can swallow a cancellation.
    """
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=every)
    await asyncio.gather(*tasks, return_exceptions=True)  # so that no error stays unseen
