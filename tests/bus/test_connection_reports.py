"""What a connection reports: losses and returns, in the log and to hooks; and what a closed reader leaves behind."""

import asyncio
import logging

import nats.errors
import pytest
from deviceshare_bus.cores.position import Position
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime import service
from deviceshare_bus.streams import latest
from deviceshare_bus.streams.audit import find_difference
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.latest import LatestWriter
from deviceshare_bus.streams.publisher import Publisher, Unknown, Write
from deviceshare_bus.streams.streamstate import stream_state
from deviceshare_bus.wire import connection as module
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.tasks import end
from support.waiting import until


def texts(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deviceshare.bus"]


async def test_a_loss_and_a_return_are_reported_once_and_an_unreachable_server_now_and_then(
    nats_server, caplog, monkeypatch
) -> None:
    caplog.set_level(logging.INFO, logger=module.log.name)
    connection = await connect(nats_server.url, "test")
    calls: list[str] = []
    connection.on_reconnect(lambda: calls.append("kept"))
    remove = connection.on_reconnect(lambda: calls.append("removed"))
    remove()
    await connection._failed(OSError("an error while the server can be reached"))
    assert caplog.messages == []
    assert connection.losses == 0
    nats_server.kill()
    await until(lambda: not connection.connected)
    await until(lambda: len(caplog.messages) > 1)
    await asyncio.sleep(1.0)  # some ten attempts to connect
    assert caplog.messages[0] == "connection lost"
    assert [text.partition(":")[0] for text in caplog.messages[1:]] == ["waiting for nats"]
    assert calls == []
    await asyncio.to_thread(nats_server.start)
    await until(lambda: calls)
    assert calls == ["kept"]
    assert connection.losses == 1
    assert caplog.messages[-1] == "connected again"
    caplog.clear()
    await connection.close()
    assert caplog.messages == [], "a connection that was closed is not lost"


async def test_a_server_that_stays_away_is_reported_again_after_a_while(nats_server, caplog, monkeypatch) -> None:
    monkeypatch.setattr(module, "UNREACHABLE_INTERVAL", 0.3)
    connection = await connect(nats_server.url, "test")
    nats_server.kill()
    await until(lambda: sum("waiting for" in text for text in caplog.messages) >= 3)
    await connection.close()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(111, "refused"), "waiting for nats://…@host: [Errno 111] refused"),
        (
            nats.errors.Error("nats: permissions violation for publish to 'ledger.1.a'"),
            "nats-server denies what this user of the bus has no right to: nats: permissions violation for publish to "
            "'ledger.1.a'",
        ),
    ],
)
async def test_the_same_trouble_is_reported_every_ten_seconds(error, text, caplog, monkeypatch) -> None:
    loop, now = asyncio.get_running_loop(), 1000.0
    connection = Connection("nats://user:password@host")
    denied = isinstance(error, nats.errors.Error)
    monkeypatch.setattr(Connection, "connected", property(lambda _: denied))
    heard = []
    for seconds in (0.0, 9.99, 10.0, 10.5, 19.99, 20.5):
        with monkeypatch.context() as at:
            at.setattr(loop, "time", lambda seconds=seconds: now + seconds)
            failing = connection._failed(error)
            with pytest.raises(StopIteration):
                failing.send(None)  # in this turn of the loop
        heard.append(len(caplog.messages))
    assert heard == [1, 1, 2, 2, 2, 3]
    assert set(caplog.messages) == {text}


async def test_a_repeated_request_waits_longer_after_each_failure(connection, monkeypatch) -> None:
    class Pauses:
        def __init__(self) -> None:
            self.failures: list[int] = []

        def delay(self, failures: int) -> float:
            self.failures.append(failures)
            return 0.0

    pauses, answers = Pauses(), iter([OSError(), OSError(), OSError()])
    monkeypatch.setattr(module, "RETRY", pauses)

    async def request() -> str:
        if (error := next(answers, None)) is not None:
            raise error
        return "answer"

    assert await connection.repeat(request, "no answer") == "answer"
    assert pauses.failures == [0, 1, 2]

    async def wrong() -> None:
        raise ValueError("not for repetition")

    with pytest.raises(ValueError, match="not for repetition"):
        await connection.repeat(wrong, "no answer")


async def test_the_pauses_of_a_writer_begin_anew_after_a_success(monkeypatch) -> None:
    failures: list[int] = []

    class Pauses:
        def delay(self, count: int) -> float:
            failures.append(count)
            return 0.0

    class Bus:
        answers = iter([Unknown("x"), Unknown("x"), 1, Unknown("x"), 2])

        async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
            future = asyncio.get_running_loop().create_future()
            answer = next(self.answers)
            if isinstance(answer, int):
                future.set_result(answer)
            else:
                future.set_exception(answer)
            return future

    monkeypatch.setattr(latest, "RETRY", Pauses())
    writer = LatestWriter(Bus())
    running = asyncio.create_task(writer.run())
    for _ in range(2):
        writer.put("a", b"1")
        await until(lambda: not writer.open)
    await end(running)
    assert failures == [0, 1, 0]


async def test_after_a_reader_was_closed_its_stream_is_written_again_also_after_a_loss(connection, nats_server) -> None:
    publisher = Publisher(connection)
    await publisher.write(Write("cluster.node.a", b"1", 0))
    before = len(connection.client._subs)
    assert [message.data for message in await Follower(connection, Stream.CLUSTER).read_to_end()] == [b"1"]
    assert len(connection.client._subs) == before, "its subscription has ended"
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    await nats_server.restart()
    await back.wait()
    assert await publisher.write(Write("cluster.node.a", b"2", 1)) == 2


async def test_a_comparison_finds_the_first_difference_and_ends_its_subscription(connection, publisher) -> None:
    for name in "abc":
        await publisher.write(Write(f"cluster.node.{name}", name.encode()))
    reader = Follower(connection, Stream.CLUSTER)
    await reader.read_to_end()
    state = await stream_state(connection, Stream.CLUSTER)
    before = len(connection.client._subs)
    position = reader._received
    assert await find_difference(connection, Stream.CLUSTER, state, position, subject=">", history=False) == ""
    assert await find_difference(connection, Stream.CLUSTER, state, Position(), subject=">", history=False) == ""
    await connection.jetstream.purge_stream(Stream.CLUSTER, subject="cluster.node.b")
    found = await find_difference(connection, Stream.CLUSTER, state, position, subject=">", history=False)
    assert found == "the last message of cluster.node.b is another one"
    position.sequence = 4
    found = await find_difference(connection, Stream.CLUSTER, state, position, subject=">", history=False)
    assert found == "it ends at 3, before the position 4"
    assert len(connection.client._subs) == before


async def test_failed_writes_are_counted_as_they_come(monkeypatch) -> None:
    monkeypatch.setattr(service, "COUNT_INTERVAL", 0.01)
    counted: list[tuple[str, int]] = []

    class Context:
        class publisher:  # noqa: N801
            no_room = 3
            unacknowledged = 7

        class events:  # noqa: N801
            @staticmethod
            def count(name: str, number: int) -> None:
                counted.append((name, number))

    running = asyncio.create_task(service._count_failures(Context))
    await asyncio.sleep(0.05)
    assert counted == [], "those of the context before have been counted"
    Context.publisher.no_room = 5
    await until(lambda: counted)
    await asyncio.sleep(0.05)
    Context.publisher.no_room = 6
    await until(lambda: len(counted) > 1)
    Context.publisher.unacknowledged = 10
    await until(lambda: len(counted) > 2)
    await asyncio.sleep(0.05)
    await end(running)
    assert counted == [
        ("bus_writes_without_room", 2),
        ("bus_writes_without_room", 1),
        ("bus_writes_unacknowledged", 3),
    ]


async def test_a_server_that_is_silent_is_reported_with_a_reason(nats_server, caplog) -> None:
    nats_server.freeze()
    connecting = asyncio.create_task(connect(nats_server.url, "test"))
    try:
        await until(lambda: any(text.startswith("waiting for") for text in texts_of_connection(caplog)))
        waiting = next(text for text in texts_of_connection(caplog) if text.startswith("waiting for"))
        assert waiting.removeprefix(f"waiting for {nats_server.url}: ").strip()
    finally:
        nats_server.thaw()
        await end(connecting)


def texts_of_connection(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deviceshare.connection"]
