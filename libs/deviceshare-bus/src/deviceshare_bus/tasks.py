"""Ending tasks for certain, and letting work gather."""

import asyncio
from typing import Any


class Pace:
    """Lets work gather while there is much of it: turns are ``seconds`` apart, the first after a rest is at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn."""
        clock = asyncio.get_running_loop().time
        if (pause := self._next - clock()) > 0:
            await asyncio.sleep(pause)
        self._next = clock() + self._seconds


def being_cancelled() -> bool:
    """Return whether the task that asks is being cancelled.

    To be asked by what asks nats-server again and again, since a task group cancels its tasks once (see :func:`end`).
    """
    this = asyncio.current_task()
    return this is not None and this.cancelling() > 0


async def end(*tasks: asyncio.Future[Any], every: float = 0.5) -> None:
    """Cancel tasks until all of them are done, again after ``every`` seconds.

    Once is not enough: on Python 3.11 ``asyncio.wait_for``, which nats-py uses, can swallow a cancellation.
    """
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=every)
    await asyncio.gather(*tasks, return_exceptions=True)  # so that no error stays unseen
