"""Work is batched under load, and a single item is not delayed."""

import asyncio

from deviceshare_bus.tasks import Pace


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
