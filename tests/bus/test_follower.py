"""Reading a stream without a gap: restarts, silence, losses and wiped streams."""

import asyncio
from contextlib import aclosing

import deviceshare_bus.streams.follower
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Publisher, PublishError, Write
from deviceshare_bus.streams.streamstate import StreamState, stream_state
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.requests import Unanswered
from deviceshare_bus.wire.tasks import end
from support.waiting import until


class Reader:
    """Collects what a follower delivers."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.subjects: list[str] = []
        self.last: dict[str, bytes] = {}
        self.sequences: list[int] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with aclosing(aiter(self.follower)) as batches:
            async for batch in batches:
                for message in batch.messages:
                    self.subjects.append(message.subject)
                    self.sequences.append(message.sequence)
                    self.last[message.subject] = message.data

    async def until(self, subject: str, data: bytes, seconds: float = 60.0) -> None:
        await until(lambda: self.last.get(subject) == data, seconds=seconds)

    async def end(self) -> None:
        await end(self.task)


async def write_anyhow(publisher: Publisher, subject: str, data: bytes) -> None:
    """Write until the server has it, as a level-triggered writer does."""
    while True:
        try:
            await publisher.write(Write(subject, data))
        except PublishError:
            await asyncio.sleep(0.05)
        else:
            return


async def test_it_begins_with_the_last_message_of_every_subject_and_goes_on(connection, publisher) -> None:
    for data in (b"1", b"2"):
        for name in ("a", "b"):
            await publisher.write(Write(f"cluster.node.{name}", data))
    follower = Follower(connection, Stream.CLUSTER)
    reader = Reader(follower)
    await reader.until("cluster.node.b", b"2")
    assert follower.caught_up
    await publisher.write(Write("cluster.node.a", b"3"))
    await reader.until("cluster.node.a", b"3")
    assert reader.subjects == ["cluster.node.a", "cluster.node.b", "cluster.node.a"]
    await reader.end()


async def test_history_is_all_there_is(connection, publisher) -> None:
    for data in (b"1", b"2", b"3"):
        await publisher.write(Write("event.test", data))
    everything = Reader(Follower(connection, Stream.EVENT, history=True))
    await everything.until("event.test", b"3")
    await publisher.write(Write("event.test", b"4"))
    await everything.until("event.test", b"4")
    assert len(everything.sequences) == 4
    await everything.end()


async def test_a_killed_server_is_followed_again_within_seconds_and_nothing_comes_twice(
    nats_server, connection, publisher
) -> None:
    reader = Reader(Follower(connection, Stream.CLUSTER))
    for round_number in range(3):
        for number in range(50):
            await write_anyhow(publisher, f"cluster.node.n{number}", b"%d" % round_number)
        await nats_server.restart(0.1)
    await write_anyhow(publisher, "cluster.node.end", b"x")
    await reader.until("cluster.node.end", b"x")
    assert reader.sequences == sorted(set(reader.sequences))
    assert {reader.last[f"cluster.node.n{number}"] for number in range(50)} == {b"2"}
    await reader.end()


async def test_a_server_that_falls_silent_is_noticed(nats_server, connection, publisher) -> None:
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    nats_server.freeze()
    await asyncio.sleep(4.0)
    nats_server.thaw()
    await write_anyhow(publisher, "cluster.node.a", b"2")
    await reader.until("cluster.node.a", b"2")
    await reader.end()


async def test_a_consumer_that_the_server_lost_is_made_anew(connection, publisher) -> None:
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    for consumer in await connection.jetstream.consumers_info(Stream.CLUSTER):
        await connection.jetstream.delete_consumer(Stream.CLUSTER, consumer.name)
    await publisher.write(Write("cluster.node.a", b"2"))
    await reader.until("cluster.node.a", b"2")
    assert reader.sequences == [1, 2]
    await reader.end()


async def test_the_position_is_compared_with_a_quiet_stream(connection, publisher, monkeypatch) -> None:
    monkeypatch.setattr(deviceshare_bus.streams.follower, "RECHECK", 0.5)
    follower = Follower(connection, Stream.CLUSTER)
    reader = Reader(follower)
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    # As if the last message had never come, and no heartbeat reported it.
    follower._received.sequence -= 1
    await until(lambda: len(reader.sequences) >= 2)
    assert reader.sequences == [1, 1]
    await reader.end()


@pytest.mark.parametrize("made_anew", [True, False])
async def test_a_wiped_bus_is_an_error_not_a_gap(connection, publisher, made_anew) -> None:
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    await connection.jetstream.delete_stream(Stream.CLUSTER)
    if made_anew:
        await make_streams(connection)
    with pytest.raises(BusWiped):
        async with asyncio.timeout(60):
            await reader.task


async def test_a_loss_during_the_comparison_does_not_forbid_writes_for_ever(connection, publisher, monkeypatch) -> None:
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    lost: list[bool] = []

    async def lost_once(*asked: object) -> StreamState:
        if not lost:
            lost.append(True)
            await connection._was_lost()
            await connection._came_back()
            raise Unanswered("the connection was lost")
        return await stream_state(*asked)

    monkeypatch.setattr(deviceshare_bus.streams.follower, "stream_state", lost_once)
    reader.follower._lost()
    await until(lambda: lost and connection.may_write("cluster.node.a"))
    await reader.end()


async def test_it_waits_for_a_stream_that_is_not_there_yet(nats_server) -> None:
    connection = await connect(nats_server.url, "test")
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await asyncio.sleep(0.3)
    await make_streams(connection)
    publisher = Publisher(connection)
    await publisher.write(Write("cluster.node.a", b"1"))
    await reader.until("cluster.node.a", b"1")
    await reader.end()
    await connection.close()


async def test_a_defect_of_its_checks_ends_the_follower(connection, monkeypatch) -> None:
    follower = Follower(connection, Stream.CLUSTER)
    reader = Reader(follower)
    await until(lambda: follower.caught_up)

    async def defect(*_: object) -> StreamState:
        raise ValueError("an answer that cannot be read")

    monkeypatch.setattr(deviceshare_bus.streams.follower, "stream_state", defect)
    with pytest.raises(ValueError, match="cannot be read"):
        async with asyncio.timeout(60):
            await reader.task


async def test_a_busy_server_gets_more_time_with_each_attempt(connection, publisher, monkeypatch) -> None:
    await publisher.write(Write("cluster.node.a", b"1"))
    asked: list[float] = []

    async def busy(connection, stream, within=1.0):
        asked.append(within)
        if within < 3:
            raise TimeoutError
        return await stream_state(connection, stream, within)

    monkeypatch.setattr(deviceshare_bus.streams.follower, "stream_state", busy)
    reader = Reader(Follower(connection, Stream.CLUSTER))
    await reader.until("cluster.node.a", b"1")
    await reader.end()
    assert asked[:3] == [1.0, 2.0, 4.0]
