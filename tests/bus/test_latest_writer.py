"""The newest message of each subject reaches the bus despite failures of the bus."""

import asyncio

import pytest
from deviceshare.model import Backoff
from deviceshare_bus.cores import postponed
from deviceshare_bus.messages.subjects import Stream, explain
from deviceshare_bus.streams import latest
from deviceshare_bus.streams.latest import LatestWriter
from deviceshare_bus.streams.publisher import Publisher, Refused, Unknown, Write
from deviceshare_bus.wire.tasks import end
from support.waiting import until


async def test_all_that_a_dying_bus_left_unanswered_is_written_soon_after_its_return(connection, nats_server):
    publisher = Publisher(connection)
    writer = LatestWriter(publisher)
    running = asyncio.create_task(writer.run())
    try:
        nats_server.freeze()
        for number in range(200):
            writer.put(explain(f"uid-{number}"), b"first")
        await asyncio.sleep(0.1)  # all of them are on their way
        writer.put(explain("uid-7"), b"last")
        nats_server.thaw()
        await nats_server.restart()
        await until(lambda: not writer.open)
        info = await connection.jetstream.stream_info(Stream.EXPLAIN)
        assert info.state.messages == 200
        assert (await connection.jetstream.get_last_msg(Stream.EXPLAIN, explain("uid-7"))).data == b"last"
    finally:
        await end(running)


class Answering:
    """A publisher whose answers are given by a test."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, float | None]] = []
        self.futures: list[asyncio.Future[int]] = []

    async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        self.sent.append((write.subject, write.data, ttl))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def until(self, count: int) -> None:
        await until(lambda: len(self.sent) >= count)


@pytest.fixture
async def answering(monkeypatch):
    monkeypatch.setattr(latest, "RETRY", Backoff(0.02, 0.04))
    publisher = Answering()
    publisher.writer = LatestWriter(publisher)
    running = asyncio.create_task(publisher.writer.run())
    yield publisher
    assert not running.done()
    await end(running)


async def test_a_newer_message_is_written_after_the_one_that_is_on_its_way(answering):
    writer = answering.writer
    writer.put("a", b"1", ttl=3.0)
    writer.put("a", b"2", ttl=4.0)
    writer.put("b", b"1")
    assert writer.open == 2
    await answering.until(2)
    assert answering.sent == [("a", b"2", 4.0), ("b", b"1", None)], "the first was never sent"
    writer.put("a", b"3")
    for future in answering.futures:
        future.set_result(1)
    await answering.until(3)
    assert (answering.sent[2], writer.open) == (("a", b"3", None), 1)
    answering.futures[2].set_result(2)
    await asyncio.sleep(0.05)
    assert (len(answering.sent), writer.open) == (3, 0)


async def test_a_refused_write_is_repeated_after_a_pause_unless_there_is_a_newer_one(answering, monkeypatch):
    monkeypatch.setattr(postponed, "REFUSED_RETRY", Backoff(0.2, 0.2))
    writer = answering.writer
    writer.put("a", b"1")
    writer.put("b", b"1")
    await answering.until(2)
    answering.futures[0].set_exception(Refused("too large"))
    answering.futures[1].set_exception(Refused("too large"))
    await asyncio.sleep(0.05)
    assert (len(answering.sent), writer.open) == (2, 0)
    writer.put("b", b"2")
    await answering.until(3)
    assert answering.sent[2] == ("b", b"2", None)
    answering.futures[2].set_result(1)
    await answering.until(4)
    assert answering.sent[3] == ("a", b"1", None)
    answering.futures[3].set_result(2)
    await asyncio.sleep(0.3)
    assert (len(answering.sent), writer.open) == (4, 0)


async def test_an_unknown_write_is_repeated_at_once_and_a_refused_one_is_not(answering):
    writer = answering.writer
    writer.put("a", b"1")
    writer.put("b", b"1")
    writer.put("c", b"1")
    await answering.until(3)
    answering.futures[0].set_exception(Unknown("no answer"))
    answering.futures[1].set_exception(Refused("too large"))
    answering.futures[2].set_result(1)
    await answering.until(4)
    assert (answering.sent[3], writer.open) == (("a", b"1", None), 1)
    answering.futures[3].set_exception(Unknown("no answer"))
    await answering.until(5)
    answering.futures[4].set_result(2)
    await asyncio.sleep(0.1)
    assert (len(answering.sent), writer.open) == (5, 0)
