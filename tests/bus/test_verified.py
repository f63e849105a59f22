"""When writes by sequence are sent again after the stream may have become another one."""

import asyncio
from typing import Any

import deviceshare_bus.streams.follower
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher, Unknown, Write
from deviceshare_bus.streams.streamstate import StreamState
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.requests import Unanswered
from deviceshare_bus.wire.tasks import end
from support.waiting import until


async def read(follower: Follower) -> None:
    async for _ in follower:
        pass


async def until_connected(connection: Connection, losses: int) -> None:
    await until(lambda: connection.losses >= losses and connection.connected)


async def test_a_connection_lost_again_during_the_verification_is_verified_afterwards(
    connection, nats_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(connection, Stream.LEDGER)
    reading = asyncio.create_task(read(follower))
    await until(lambda: follower.caught_up)
    real = deviceshare_bus.streams.follower.stream_state
    silent, asked = True, 0

    async def stream_state(*arguments: Any) -> StreamState:
        nonlocal asked
        asked += 1
        if silent:
            raise Unanswered("no leader yet")
        return await real(*arguments)

    monkeypatch.setattr(deviceshare_bus.streams.follower, "stream_state", stream_state)
    await nats_server.restart()
    await until_connected(connection, 1)
    before = asked
    await until(lambda: asked != before)
    await nats_server.restart()
    await until_connected(connection, 2)
    silent = False
    await until(lambda: connection.may_write("ledger.1.a"))
    await Publisher(connection).write(Write("ledger.1.a", b"x", 0))
    await end(reading)


async def test_writes_in_flight_end_when_another_server_leads_the_stream(connection, nats_server) -> None:
    publisher = Publisher(connection, timeout=30.0)
    nats_server.freeze()
    futures = [await publisher.send(Write(subject, b"x", 0)) for subject in ("ledger.1.a", "cluster.node.a")]
    await publisher.drain()
    connection.unverified(Stream.LEDGER)
    with pytest.raises(Unknown, match="another leader"):
        await futures[0]
    assert not futures[1].done()
    nats_server.thaw()
    await futures[1]
