"""A reader that is slower than its stream: its buffer is bounded, and it misses nothing."""

import asyncio
import logging
from contextlib import aclosing

import deviceshare_bus.streams.follower
import deviceshare_bus.streams.inbox
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.connection import Connection

SIZE = 16 * 1024
COUNT = 4000
WINDOW = 4 << 20
"""Bytes that the server sends before the first flow-control replies: it begins with a sixteenth of 32 MiB."""


async def fill(publisher: Publisher, first: int = 0, count: int = COUNT) -> None:
    for start in range(first, first + count, 100):
        futures = [
            await publisher.send(Write(f"cluster.node.n{number}", number.to_bytes(4, "big") * (SIZE // 4)))
            for number in range(start, start + 100)
        ]
        await asyncio.gather(*futures)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.inbox, "INBOX_BYTES", 1 << 20)


def waiting(follower: Follower, connection: Connection) -> int:
    """Return the bytes that wait for the reader, in the follower and in nats-py."""
    assert follower._inbox.size == sum(len(message.data) for message in follower._inbox._messages)
    return follower._inbox.size + sum(subscription.pending_bytes for subscription in connection.client._subs.values())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("disturbed", ["not", "by a restart", "by a lost consumer"])
async def test_the_buffer_of_a_slow_reader_is_bounded_and_no_message_is_missed(
    nats_server, connection: Connection, publisher: Publisher, caplog: pytest.LogCaptureFixture, disturbed: str
) -> None:
    caplog.set_level(logging.INFO)
    await fill(publisher)
    follower = Follower(connection, Stream.CLUSTER)
    sequences: list[int] = []
    rests = 0
    async with asyncio.timeout(60), aclosing(aiter(follower)) as batches:
        async for batch in batches:
            sequences += [message.sequence for message in batch.messages]
            assert all(message.data[:4] == (message.sequence - 1).to_bytes(4, "big") for message in batch.messages)
            if batch.position >= COUNT:
                break
            if rests < 3:
                rests += 1
                await asyncio.sleep(1.5)  # longer than a heartbeat
                assert waiting(follower, connection) <= (1 << 20) + WINDOW * 2**rests
                if rests == 1:
                    assert follower.stalls >= 1
                    assert batch.position < COUNT // 2
                if rests == 2 and disturbed == "by a restart":
                    await nats_server.restart()
                if rests == 2 and disturbed == "by a lost consumer":
                    for consumer in await connection.jetstream.consumers_info(Stream.CLUSTER):
                        await connection.jetstream.delete_consumer(Stream.CLUSTER, consumer.name)
    assert sequences == list(range(1, COUNT + 1))
    assert "the reader is behind" in caplog.text


async def test_many_small_messages_are_bounded_by_their_number(
    connection: Connection, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.inbox, "INBOX_MESSAGES", 100)
    count = 60_000
    for start in range(0, count, 500):
        futures = [await publisher.send(Write(f"cluster.node.n{start + number}", b"x")) for number in range(500)]
        await asyncio.gather(*futures)
    follower = Follower(connection, Stream.CLUSTER)
    sequences: list[int] = []
    async with asyncio.timeout(60), aclosing(aiter(follower)) as batches:
        async for batch in batches:
            if not sequences:
                while not follower.stalls:
                    await asyncio.sleep(0.02)
                assert 100 <= len(follower._inbox) < count // 2
            sequences += [message.sequence for message in batch.messages]
            if batch.position >= count:
                break
    assert sequences == list(range(1, count + 1))


async def test_a_slow_reader_is_reported_once_and_so_is_its_recovery(
    connection: Connection, publisher: Publisher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.follower, "LAG", 0.1)
    monkeypatch.setattr(deviceshare_bus.streams.follower, "CHECK", 0.05)
    await fill(publisher, count=100)
    follower = Follower(connection, Stream.CLUSTER)

    def reports() -> list[str]:
        return [each.getMessage() for each in caplog.records if "the reader" in each.getMessage()]

    caplog.set_level(logging.INFO)
    async with asyncio.timeout(60), aclosing(aiter(follower)) as batches:
        async for batch in batches:
            if batch.position == 100 and not reports():
                await fill(publisher, first=100, count=100)
                while not reports():
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.2)
                assert reports() == ["CLUSTER: the reader is more than 0.1 s behind"]
                assert "is read to" in follower.obstacle
            if batch.position == 200:
                break
        waiting = asyncio.ensure_future(anext(batches))
        while len(reports()) < 2:
            await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert reports()[1] == "CLUSTER: the reader has caught up"
    assert follower.obstacle == ""


async def test_the_reader_of_a_part_of_a_stream_is_not_slow_since_other_messages_follow(
    connection: Connection, publisher: Publisher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.follower, "LAG", 0.1)
    monkeypatch.setattr(deviceshare_bus.streams.follower, "CHECK", 0.05)
    await (await publisher.send(Write("cluster.pod.u", b"x")))
    await fill(publisher, count=100)
    follower = Follower(connection, Stream.CLUSTER, subject="cluster.pod.>")
    async with aclosing(aiter(follower)) as batches:
        assert (await anext(batches)).caught_up
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert "the reader" not in caplog.text
