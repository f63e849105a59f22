"""Cancellation, and batching of work."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from deviceshare_bus.cores.window import Window

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class Pace:
    """Batches work: turns are at least ``seconds`` apart; the first turn after a pause is immediate."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn."""
        clock = asyncio.get_running_loop().time
        if (pause := self._next - clock()) > 0:
            await asyncio.sleep(pause)
        self._next = clock() + self._seconds


class Rounds:
    """Batches messages: a round begins at once after a rest; the more messages arrive, the later (:class:`Window`)."""

    def __init__(self) -> None:
        self._window = Window()
        self._next = 0.0

    async def begin(self) -> None:
        """Wait for the next round."""
        if (pause := self._next - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(pause)

    def took(self, count: int) -> None:
        """Record that a round has begun, with ``count`` messages."""
        now = asyncio.get_running_loop().time()
        self._next = now + self._window.after(now, count)


class Alarm:
    """An event for which one task waits, at most for a time.

    For a task that wakes up often: a timeout costs several times as much, since it cancels the task and raises twice,
    and ``asyncio.Event`` keeps a queue of tasks that wait.
    """

    __slots__ = ("_set", "_waiting")

    def __init__(self) -> None:
        self._set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task that waits, or that waits next."""
        self._set = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def clear(self) -> None:
        """Let the next wait begin anew."""
        self._set = False

    async def wait(self, pause: float | None = None) -> None:
        """Wait until it is set, and set it after ``pause`` seconds, None for never."""
        if self._set:
            return
        loop = asyncio.get_running_loop()
        timer = None if pause is None else loop.call_later(pause, self.set)
        self._waiting = loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()


async def heed_cancellation(awaitable: Awaitable[T]) -> T:
    """Await something that may lose a cancellation, as ``asyncio.wait_for`` in nats-py can on Python 3.11.

    Raises CancelledError when it is done, if the task was cancelled meanwhile.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    result = await awaitable
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until all of them are done; their errors are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish(seconds: float, *work: Coroutine[Any, Any, None]) -> int:
    """Run coroutines concurrently for so many seconds at most; return how many failed or were cut off."""
    tasks = [asyncio.create_task(each) for each in work]
    if not tasks:
        return 0
    await asyncio.wait(tasks, timeout=seconds)
    await end(*(task for task in tasks if not task.done()))
    return sum(task.cancelled() or task.exception() is not None for task in tasks)


def find_error(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of a type: ``error`` itself, or one in its exception groups."""
    if isinstance(error, kind):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for one in inner if (found := find_error(one, kind)) is not None), None)
