"""An asyncio event loop in virtual time, and a process in which nothing depends on the real clock or on chance.

The clock of the loop stands still while tasks run and jumps to the next timer when all of them wait: idle time costs
nothing.
"""

import asyncio
import gc
import heapq
import logging
import math
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack
from unittest.mock import patch

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WALL = 1_780_000_000.0
"""Unix time at the beginning of a history."""


GRID = 0.005
"""Seconds between two moments at which timers fire: what coincides costs one turn of each task instead of many."""


class Deadlock(Exception):
    """Every task waits, and no timer is set."""


class _Timer(asyncio.TimerHandle):
    """A timer with a place among those of the same time: a heap alone keeps no order of equals."""

    number: int
    _scheduled: bool

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without file descriptors whose time begins at 0 seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers = 0
        self._selector = _NoDescriptors(self)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time, rounded up to :data:`GRID`; in the order of the calls where times are equal."""
        self._timers += 1
        timer = _Timer(math.ceil(when / GRID - 1e-6) * GRID, callback, args, self, context)
        timer.number = self._timers
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True
        return timer

    def jump(self) -> None:
        """Set the clock to the next timer. Raises Deadlock."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not timers:
            raise Deadlock("every task waits, and no timer is set")
        self._now = max(self._now, timers[0].when())

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: there are no descriptors."""

    def _write_to_self(self) -> None:
        """Do nothing: there is one thread."""


class _NoDescriptors:
    """The selector of a loop: it does not wait, but lets the clock jump."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        """Return no events. ``timeout`` is 0 while something can run at once."""
        if timeout is None or timeout > 0:
            self._loop.jump()
        return []


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
    # The garbage collector would finalize generators at a moment that depends on earlier histories.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with (
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
        if collecting:
            gc.enable()
