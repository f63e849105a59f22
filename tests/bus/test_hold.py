"""A ledger that may replace a lost one counts as read only when bindings in flight have ended."""

import asyncio

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.wire.connection import connect


async def seconds_until_caught_up(follower: Follower) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(60):
        await follower.read_to_end()
    return loop.time() - began


async def test_a_new_ledger_is_held_from_its_creation(nats_url) -> None:
    connection = await connect(nats_url, "test")
    await make_streams(connection, hold=6.0)
    assert await seconds_until_caught_up(Follower(connection, Stream.CLUSTER)) < 4.0
    ledger = Follower(connection, Stream.LEDGER)
    assert await seconds_until_caught_up(ledger) > 0.5
    assert await seconds_until_caught_up(Follower(connection, Stream.LEDGER)) < 4.0, "it is not new any more"
    await connection.close()


async def test_a_service_that_starts_anew_holds_a_ledger_that_exists(connection) -> None:
    assert await seconds_until_caught_up(Follower(connection, Stream.LEDGER, hold=1.5)) >= 1.5
