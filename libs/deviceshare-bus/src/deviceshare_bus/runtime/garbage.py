"""When a service collects reference cycles.

The state of a service is large, and hardly any of it is part of a cycle: a full collection visits all of it and finds
nothing. What was read at the start is exempt, young objects are collected rarely, and all others when the service is
idle.
"""

import asyncio
import ctypes
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

THRESHOLDS = (50_000, 20, 10_000)
"""Allocated objects between two collections of the youngest generation, and how many of these, and of those, until the
next generation is collected as well: the collector never collects all objects by itself."""
INTERVAL = 1.0
"""Seconds between two checks."""
IDLE = 0.05
"""The share of a core below which a process is idle."""
LONGEST = 600.0
"""Seconds after which a process that is never idle collects all objects nevertheless."""


def rarely_collect() -> None:
    """Exempt all objects that there are, such as modules, and collect others rarely."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def uncollected(*, until_exit: bool = False) -> Iterator[None]:
    """Collect no garbage but what was made before, and this only between two uses.

    For what keeps all that it makes until its end: each collection would visit all of it. ``until_exit``: the process
    ends then, so that what was made is never visited.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if until_exit:
            gc.freeze()  # else it is visited as soon as collections are possible again
        if collecting:
            gc.enable()


def return_memory() -> None:
    """Return the freed memory of the C library's heap to the system, where it is glibc's, which keeps most of it."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


class FullCollections:
    """When all objects are to be collected. Times are in seconds."""

    def __init__(self, now: float) -> None:
        self._checked_at = self._collected_at = now
        self._cpu = 0.0
        self._collections = 0

    def due(self, now: float, cpu: float, collections: int) -> bool:
        """Return whether to collect now; the process has used ``cpu`` seconds.

        ``collections``: how often the middle generation was collected, which is when objects became old. Without any
        there is nothing new to collect.
        """
        idle = cpu - self._cpu < IDLE * (now - self._checked_at)
        self._cpu, self._checked_at = cpu, now
        if collections == self._collections or not (idle or now - self._collected_at >= LONGEST):
            return False
        self._collected_at, self._collections = now, collections
        return True


async def collect_when_idle(ready: Callable[[], object | None]) -> None:
    """Collect all objects when the process is idle, until cancelled.

    ``ready`` returns what the state belongs to once it was read, None before: the state is exempt then. When it returns
    another object, such as after the bus was wiped, the former state is freed first.
    """
    pace = FullCollections(time.monotonic())
    exempt: weakref.ref[object] | None = None
    while True:
        await asyncio.sleep(INTERVAL)
        owner = ready()
        if owner is not None and (exempt is None or exempt() is not owner):
            exempt = weakref.ref(owner)
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            return_memory()
        elif pace.due(time.monotonic(), time.process_time(), gc.get_stats()[1]["collections"]):
            gc.collect()
