"""A store that lost messages and was written again beyond the position of a reader is not read on."""

import asyncio
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Publisher, PublishError, Unknown, Write
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from support.power_loss import PowerLoss
from support.waiting import until

PREFIX = {Stream.CLUSTER: "cluster.node", Stream.LEDGER: "ledger.1", Stream.EVENT: "event"}


async def read_on(follower: Follower, seen: dict[str, bytes]) -> None:
    async for batch in follower:
        seen |= {message.subject: message.data for message in batch.messages}


async def write(connection: Connection, subject: str, data: bytes) -> int:
    return await Publisher(connection).write(Write(subject, data))


@pytest.mark.parametrize("stream", [Stream.CLUSTER, Stream.LEDGER, Stream.EVENT])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_store_that_fell_back_and_regrew_is_noticed(
    connection, nats_server, tmp_path: Path, stream, replaced
) -> None:
    """At 50, then 100; back at 50, then 105. ``replaced``: the message at the position does not exist any more."""
    name = PREFIX[stream]
    for number in range(50):
        await write(connection, f"{name}.n{number % 10}", b"old %d" % number)
    loss = PowerLoss(nats_server)
    await loss.snapshot(connection)
    for number in range(50):
        await write(connection, f"{name}.n{number % 10}", b"lost %d" % number)
    seen: dict[str, bytes] = {}
    follower = Follower(connection, stream, history=stream is Stream.EVENT)
    reading = asyncio.create_task(read_on(follower, seen))
    await until(lambda: follower.position == 100)
    loss.fall_back()
    async with loss.aside(tmp_path) as other:
        for number in range(55):
            # n0 is not written again: the reader knows a message of it that was lost.
            await write(other, f"{name}.n{number % 8 + 1 + replaced}", b"new")
    await asyncio.to_thread(nats_server.start)
    with pytest.raises(BusWiped):
        async with asyncio.timeout(60):
            await reading


async def test_a_store_that_lost_nothing_is_read_on_although_the_last_message_was_replaced(
    connection, nats_server, tmp_path
):
    for number in range(20):
        await write(connection, f"ledger.1.n{number}", b"1")
    seen: dict[str, bytes] = {}
    follower = Follower(connection, Stream.LEDGER)
    reading = asyncio.create_task(read_on(follower, seen))
    await until(lambda: follower.position == 20)
    nats_server.kill()
    loss = PowerLoss(nats_server)
    async with loss.aside(tmp_path) as other:
        for _ in range(3):
            await write(other, "ledger.1.n19", b"2")
    await asyncio.to_thread(nats_server.start)
    await until(lambda: seen["ledger.1.n19"] == b"2")
    assert follower.position == 23
    await end(reading)


async def test_nothing_is_written_by_sequence_before_the_stream_was_verified(
    connection, nats_server, tmp_path: Path
) -> None:
    """The sequence that a writer knows is that of another message now: compare-and-set alone would overwrite it."""
    publisher = Publisher(connection)
    await write(connection, "ledger.1.a", b"1")
    loss = PowerLoss(nats_server)
    await loss.snapshot(connection)
    known = await write(connection, "ledger.1.a", b"lost")
    follower = Follower(connection, Stream.LEDGER)
    reading = asyncio.create_task(read_on(follower, {}))
    await until(lambda: follower.position == known)
    loss.fall_back()
    async with loss.aside(tmp_path) as other:
        assert await write(other, "ledger.1.a", b"another writer's") == known
    await asyncio.to_thread(nats_server.start)
    answers = []
    while not reading.done():
        try:
            answers.append(await publisher.write(Write("ledger.1.a", b"overwritten", known)))
        except PublishError as error:
            answers.append(error)
        await asyncio.sleep(0.005)
    assert isinstance(reading.exception(), BusWiped)
    assert answers
    assert all(isinstance(answer, Unknown) for answer in answers)
    # Nor after the follower has ended, until a new one has read the stream.
    with pytest.raises(Unknown):
        await publisher.write(Write("ledger.1.a", b"overwritten", known))
    found = await connection.jetstream.get_last_msg(Stream.LEDGER, "ledger.1.a")
    assert found.data == b"another writer's"
    reading = asyncio.create_task(read_on(Follower(connection, Stream.LEDGER), seen := {}))
    await until(lambda: seen == {"ledger.1.a": b"another writer's"})
    assert await publisher.write(Write("ledger.1.a", b"3", known)) == known + 1
    await end(reading)


@pytest.mark.parametrize("stream", [Stream.CLUSTER, Stream.LEDGER])
async def test_an_emptied_stream_is_noticed_within_seconds(connection, stream) -> None:
    for number in range(5):
        await write(connection, f"{PREFIX[stream]}.n{number}", b"1")
    follower = Follower(connection, stream)
    reading = asyncio.create_task(read_on(follower, {}))
    await until(lambda: follower.position == 5)
    await connection.jetstream.purge_stream(stream)
    with pytest.raises(BusWiped):
        async with asyncio.timeout(60):
            await reading


async def test_a_lease_does_not_hide_that_a_stream_was_emptied(connection) -> None:
    publisher = Publisher(connection)
    await publisher.write(Write("ledger.1.a", b"1", 0))
    follower, seen = Follower(connection, Stream.LEDGER), dict[str, bytes]()
    reading = asyncio.create_task(read_on(follower, seen))
    await until(lambda: follower.position == 1)
    await connection.jetstream.purge_stream(Stream.LEDGER)
    # As many messages are left as subjects are remembered.
    await publisher.write(Write("ledger.lease.placement.one", b"lease", 0), ttl=600)
    await publisher.write(Write("ledger.1.b", b"1", 0))
    with pytest.raises(BusWiped):
        async with asyncio.timeout(60):
            await reading
    assert seen.keys() >= {"ledger.1.a"}


async def test_messages_that_expire_are_no_loss(connection) -> None:
    publisher = Publisher(connection)
    await publisher.write(Write("cluster.pod.a", b"1", 0))
    await publisher.write(Write("cluster.pod.b", b"1", 0))
    await publisher.write(Write("cluster.pod.a", b"gone", 1), ttl=1)
    follower = Follower(connection, Stream.CLUSTER)
    reading = asyncio.create_task(read_on(follower, {}))
    await asyncio.sleep(3.5)
    assert not reading.done()
    assert (await connection.jetstream.stream_info(Stream.CLUSTER)).state.messages == 1
    await end(reading)
