"""A stream on which nothing happens keeps its consumer."""

import asyncio

import deviceshare_bus.streams.follower
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Write
from deviceshare_bus.wire.tasks import end
from support.waiting import until


async def consumers(connection) -> list[str]:
    return [each.name for each in await connection.jetstream.consumers_info(Stream.CLUSTER)]


@pytest.mark.parametrize("written", [0, 3])
async def test_a_quiet_follower_keeps_its_consumer(connection, publisher, monkeypatch, written) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.follower, "HEARTBEAT", 0.15)
    monkeypatch.setattr(deviceshare_bus.streams.follower, "SILENCE", 0.8)
    monkeypatch.setattr(deviceshare_bus.streams.follower, "RECHECK", 0.3)
    for number in range(written):
        await publisher.write(Write(f"cluster.node.n{number}", b"1"))
    follower = Follower(connection, Stream.CLUSTER)
    batches = []

    async def read() -> None:
        async for batch in follower:
            batches.append(batch)

    task = asyncio.create_task(read())
    await until(lambda: follower.caught_up)
    before = await consumers(connection)
    assert len(before) == 1
    await asyncio.sleep(2.0)  # heartbeats come, and the position is compared several times
    assert await consumers(connection) == before
    await publisher.write(Write("cluster.node.new", b"1"))
    await until(lambda: follower.position == written + 1)
    assert await consumers(connection) == before
    assert [message.subject for batch in batches for message in batch.messages][written:] == ["cluster.node.new"]
    await end(task)
