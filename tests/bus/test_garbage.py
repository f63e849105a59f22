"""When a service collects reference cycles."""

import asyncio
import gc
import weakref

import pytest
from deviceshare_bus.runtime import garbage
from deviceshare_bus.runtime.garbage import IDLE, LONGEST, FullCollections, collect_when_idle
from support.garbage import exempt_all
from support.waiting import until


class State:
    """What a service has read: part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


def test_all_objects_are_collected_when_the_process_is_idle_and_there_are_new_ones():
    pace = FullCollections(0.0)
    assert not pace.due(1.0, 0.0, 0), "nothing new"
    assert not pace.due(2.0, 0.5, 1), "busy"
    assert not pace.due(3.0, 0.5 + IDLE, 1), "just not idle"
    assert pace.due(4.0, 0.5 + 1.5 * IDLE, 1)
    assert not pace.due(5.0, 0.5 + 1.5 * IDLE, 1), "nothing new since then"
    assert pace.due(6.0, 0.5 + 1.5 * IDLE, 2)


def test_a_process_that_is_never_idle_collects_at_times():
    pace = FullCollections(0.0)
    due = [now for now in range(1, 2000) if pace.due(float(now), float(now), now)]
    assert due == [LONGEST, 2 * LONGEST, 3 * LONGEST]


async def test_what_was_read_at_the_start_is_exempt(monkeypatch):
    monkeypatch.setattr(garbage, "INTERVAL", 0.01)
    ready: State | None = None
    frozen = gc.get_freeze_count()
    task = asyncio.create_task(collect_when_idle(lambda: ready))
    try:
        await asyncio.sleep(0.05)
        assert gc.get_freeze_count() == frozen
        ready = State()
        await until(lambda: gc.get_freeze_count() != frozen)
        former = weakref.ref(ready)
        ready = None
        await asyncio.sleep(0.05)
        ready = State()
        await until(lambda: former() is None)  # only a collection frees it, which does not see what is exempt
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        exempt_all()
