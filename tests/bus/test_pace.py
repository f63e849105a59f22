"""Work is batched under load, and a single item is not delayed."""

import asyncio

import pytest
from deviceshare_bus.wire.tasks import Alarm, Pace


async def test_the_first_turn_after_a_rest_is_at_once_and_the_next_are_apart() -> None:
    clock = asyncio.get_running_loop().time
    pace = Pace(0.05)
    for _ in range(2):
        began = clock()
        await pace.turn()
        assert clock() - began < 0.04
        await pace.turn()
        await pace.turn()
        assert clock() - began >= 0.1
        await asyncio.sleep(0.06)


async def test_an_alarm_is_set_when_the_pause_is_over() -> None:
    alarm = Alarm()
    await alarm.wait(0.01)
    async with asyncio.timeout(60):
        await alarm.wait()
    alarm.clear()
    asyncio.get_running_loop().call_soon(alarm.set)
    async with asyncio.timeout(60):
        await alarm.wait(3600.0)
        await alarm.wait()
    alarm.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await alarm.wait()
