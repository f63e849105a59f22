"""An asyncio event loop in virtual time, and a process in which nothing depends on the real clock or on chance.

The clock of the loop stands still while tasks run and jumps to the next timer when all of them wait: idle time costs
nothing.
"""

import asyncio
import gc
import heapq
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from itertools import count
from math import ceil
from typing import Any, TypeVar, TypeVarTuple, Unpack
from unittest.mock import patch

from deviceshare_bus.runtime.garbage import uncollected

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WALL = 1_780_000_000.0
"""Unix time at the beginning of a history."""


_runs = count(1)
COLLECT = 30
"""Runs between two collections of what they have left: none is collected while collection is disabled otherwise."""
GRID = 0.005
"""Seconds between two moments at which timers fire: what coincides costs one turn of each task instead of many."""


class Deadlock(Exception):
    """Every task waits, and no timer is set."""


class _Handle(asyncio.TimerHandle):
    """A callback. It keeps less than asyncio's own handles: most of the time of a history is spent on them."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        """Do not call back."""
        self._cancelled = True


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without file descriptors whose time begins at 0 seconds.

    Timers fire in the order of their moments, those of the same moment in the order in which they were set.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._moment = 0
        self._runnable: deque[_Handle] = deque()
        self._moments: list[int] = []
        """A heap of the moments at which timers fire, in multiples of :data:`GRID`."""
        self._timers: dict[int, list[_Handle]] = {}

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back as soon as what can run before has run."""
        handle = _Handle(callback, args, context)
        self._runnable.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after some seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time, rounded up to :data:`GRID`; in the order of the calls where times are equal."""
        moment = ceil(when / GRID - 1e-6)
        if moment <= self._moment and when > self._now:
            moment = self._moment + 1  # otherwise what waits for a time just ahead would be called without end
        handle = _Handle(callback, args, context)
        timers = self._timers.get(moment)
        if timers is None:
            self._timers[moment] = [handle]
            heapq.heappush(self._moments, moment)
        else:
            timers.append(handle)
        return handle

    def _run_once(self) -> None:
        """Run what can run, or jump to the next moment at which a timer fires. Raises Deadlock."""
        runnable = self._runnable
        while not runnable:
            if not self._moments:
                raise Deadlock("every task waits, and no timer is set")
            moment = heapq.heappop(self._moments)
            due = [handle for handle in self._timers.pop(moment) if not handle._cancelled]
            if due:
                self._moment = max(self._moment, moment)
                self._now = self._moment * GRID
                runnable.extend(due)
        for _ in range(len(runnable)):
            handle = runnable.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"exception in {handle._callback}"
                self.call_exception_handler({"message": message, "exception": error})

    def _write_to_self(self) -> None:
        """Do nothing: there is one thread."""


def run(main: Callable[[], Coroutine[Any, Any, T]], seed: int | str) -> T:
    """Run a coroutine in virtual time; the same seed gives the same run, in every process.

    Everything that is drawn from :mod:`random` and :mod:`secrets` meanwhile is derived from the seed, and
    :mod:`time` tells the virtual time.
    """
    loop = VirtualLoop()
    with _reproducible(loop, seed):
        try:
            return loop.run_until_complete(main())
        finally:
            _end_tasks(loop)
            loop.close()


def _end_tasks(loop: VirtualLoop) -> None:
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))


@contextmanager
def _reproducible(loop: VirtualLoop, seed: int | str) -> Iterator[None]:
    chance = random.Random(f"{seed}/secrets")
    before = random.getstate()
    random.seed(f"{seed}/random")
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    number = next(_runs)
    if number == 1 or number % COLLECT == 0:
        gc.collect()
    if number == 1:
        gc.freeze()  # modules and what they hold
    try:
        with (
            # The garbage collector would finalize generators at a moment that depends on earlier histories.
            uncollected(),
            patch.object(time, "time", lambda: WALL + loop.time()),
            patch.object(time, "monotonic", loop.time),
            patch.object(secrets, "token_hex", lambda size=32: chance.randbytes(size).hex()),
            patch.object(secrets, "token_bytes", lambda size=32: chance.randbytes(size)),
            patch.object(secrets, "randbits", chance.getrandbits),
        ):
            yield
    finally:
        random.setstate(before)
        logging.disable(level)
