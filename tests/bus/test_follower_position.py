"""A follower's position counts the messages that its reader has handled, not those that have arrived."""

import asyncio

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher, Unknown, Write
from deviceshare_bus.wire.connection import connect


async def test_the_position_follows_the_reader_not_the_network(nats_url):
    connection = await connect(nats_url, "test")
    await make_streams(connection)
    publisher = Publisher(connection)
    last = [await publisher.write(Write(f"cluster.node.{n}", b"x")) for n in range(3)][-1]
    follower = Follower(connection, Stream.CLUSTER)
    seen = 0
    async for batch in follower:
        assert follower.position <= seen
        await asyncio.sleep(0.05)  # more arrives while the reader is busy
        assert follower.position <= seen
        seen = batch.position
        if seen == last:
            break
    async for batch in Follower(connection, Stream.CLUSTER):
        assert batch.position <= last
        if batch.position == last:
            break
    await connection.close()


async def test_requests_without_a_connection_are_not_sent_later(connection, nats_server):
    publisher = Publisher(connection)
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    nats_server.kill()
    while connection.connected:
        await asyncio.sleep(0.01)
    with pytest.raises(Unknown):
        await publisher.write(Write("cluster.node.a", b"late"))
    nats_server.start()
    await back.wait()
    assert await publisher.write(Write("cluster.node.a", b"now", 0)) == 1
