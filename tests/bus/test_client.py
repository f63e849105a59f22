"""Publishing, listening and requests on a real nats-server: the same in every form of the framing, and as nats-py."""

import asyncio
import logging
from collections.abc import AsyncIterator

import nats
import nats.errors
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Conflict, Publisher, Unknown, Write
from deviceshare_bus.wire import client as client_module
from deviceshare_bus.wire import connection_reader
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.framing import Received
from deviceshare_bus.wire.requests import Unanswered
from support import framings
from support.natsserver import NatsServer
from support.waiting import until


@pytest.fixture(params=framings.ALL)
async def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    framings.install(name, monkeypatch)
    return name


@pytest.fixture
async def connection(form: str, nats_server: NatsServer) -> AsyncIterator[Connection]:
    connection = await connect(nats_server.url, "test")
    yield connection
    await connection.close()


async def until_heard(heard: list[Received], count: int) -> None:
    await until(lambda: len(heard) >= count)


async def test_messages_arrive_as_nats_py_receives_them(connection: Connection, nats_server: NatsServer) -> None:
    heard: list[Received] = []
    connection.listen("a.*", heard.append)
    await connection.client.flush()
    other = await nats.connect(nats_server.url)
    subscription = await other.subscribe("a.*")
    await other.flush()
    head = b"NATS/1.0\r\nNats-TTL: 5\r\nA: b\r\n\r\n"
    for size in (0, 1, 1000, 100_000, 3_000_000):
        connection.client.send("a.own", bytes(size), "reply.to" if size else "", head if size > 1 else b"")
        await other.publish("a.other", bytes(size), headers={"A": "b"} if size else None)
    await until_heard(heard, 10)
    theirs = [await subscription.next_msg(timeout=60) for _ in range(10)]

    def as_received(message: object) -> tuple[object, ...]:
        return (message.subject, message.reply, message.data, message.headers or {})

    assert sorted(map(as_received, heard), key=repr) == sorted(map(as_received, theirs), key=repr)
    assert [len(message.data) for message in heard if message.subject == "a.own"] == [0, 1, 1000, 100_000, 3_000_000]
    await other.close()


async def test_a_flush_covers_what_was_sent_before_it(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has subscribed the listener when a flush ends, although a turn of the loop is written at its end."""
    transport, written = connection.client._transport, bytearray()
    write = transport.write
    monkeypatch.setattr(transport, "write", lambda data: (written.extend(data), write(data)))
    connection.listen("a", lambda message: None)
    connection.client.send("b")
    await connection.client.flush()
    assert [line.split()[0] for line in written.splitlines() if line] == [b"SUB", b"PUB", b"PING"]


async def test_nothing_is_heard_after_the_end_of_listening(connection: Connection) -> None:
    heard: list[Received] = []
    listening = connection.listen("a", heard.append)
    connection.client.send("a", b"1")
    await connection.client.flush()
    listening.end()
    listening.end()
    connection.client.send("a", b"2")
    await connection.client.flush()
    assert [message.data for message in heard] == [b"1"]
    assert len(connection.client._listeners) == 1, "the answers to requests"


async def test_a_listener_that_raises_is_reported_and_the_connection_goes_on(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []

    def listener(message: Received) -> None:
        heard.append(message.data)
        raise ZeroDivisionError

    connection.listen("a", listener)
    connection.client.send("a", b"1")
    connection.client.send("a", b"2")
    await connection.client.flush()
    assert heard == [b"1", b"2"]
    assert caplog.text.count("ZeroDivisionError()") == 2


async def test_listening_goes_on_after_a_restart_and_nothing_is_sent_meanwhile(
    connection: Connection, nats_server: NatsServer
) -> None:
    heard: list[Received] = []
    ended = connection.listen("b", heard.append)
    connection.listen("a", heard.append)
    await connection.client.flush()
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    connection.client.send("a", b"before")
    await connection.client.flush()
    nats_server.kill()
    await until(lambda: not connection.connected)
    with pytest.raises(nats.errors.ConnectionReconnectingError):
        connection.client.send("a", b"meanwhile")
    with pytest.raises(Unanswered, match="not connected"):
        await connection.requests.request("a", b"", 1.0)
    ended.end()
    connection.listen("c", heard.append)
    await asyncio.to_thread(nats_server.start)
    async with asyncio.timeout(60):
        await back.wait()
    for subject in ("a", "b", "c"):
        connection.client.send(subject, b"after")
    await until_heard(heard, 3)
    await connection.client.flush()
    assert [(message.subject, message.data) for message in heard] == [
        ("a", b"before"),
        ("a", b"after"),
        ("c", b"after"),
    ]


async def test_messages_of_one_turn_are_one_write(connection: Connection, form: str) -> None:
    heard: list[Received] = []
    connection.listen("a", heard.append)
    await connection.client.flush()
    written: list[bytes] = []
    transport = connection.client._transport
    write = transport.write

    def recording(data: bytes) -> None:
        written.append(data)
        write(data)

    transport.write = recording
    for number in range(100):
        connection.client.send("a", b"%d" % number)
    await until_heard(heard, 100)
    assert [int(message.data) for message in heard] == list(range(100))
    assert len(written) == 1


@pytest.mark.parametrize("form", [each for each in framings.ALL if each != framings.NATS_PY], indirect=True)
async def test_with_a_read_interval_what_arrives_meanwhile_is_one_read(connection: Connection) -> None:
    heard: list[Received] = []
    times: list[float] = []
    clock = asyncio.get_running_loop().time

    def hear(message: Received) -> None:
        heard.append(message)
        times.append(clock())

    connection.listen("a", hear)
    await connection.client.flush()
    connection.client.read_interval = 0.3
    for _ in range(10):
        connection.client.send("a")
        await asyncio.sleep(0.01)
    await until_heard(heard, 10)
    first = sum(at < times[0] + 0.2 for at in times)
    assert first < 5, "the first message was read at once"
    assert times[-1] - times[first] < 0.1, "all others in one read"
    large = bytes(connection_reader.READ_AT_ONCE_BYTES)
    began = clock()
    for _ in range(20):
        connection.client.send("a", large)
        await asyncio.sleep(0.01)
    await until_heard(heard, 30)
    assert clock() - began < 20 * 0.3 / 2, "after much is read, the next read does not wait"
    connection.client.read_interval = 0.0


async def test_too_large_messages_and_bad_subjects_are_not_sent(connection: Connection) -> None:
    limit = connection.max_payload
    with pytest.raises(nats.errors.MaxPayloadError):
        connection.client.send("a", bytes(limit + 1))
    head = b"NATS/1.0\r\n\r\n"
    with pytest.raises(nats.errors.MaxPayloadError):
        connection.client.send("a", bytes(limit - len(head) + 1), "", head)
    for subject in ("", "a b", "a\r\nPUB b 0"):
        with pytest.raises(nats.errors.BadSubjectError):
            connection.client.send(subject)
        with pytest.raises(nats.errors.BadSubjectError):
            connection.listen(subject, print)
    heard: list[Received] = []
    connection.listen("a", heard.append)
    connection.client.send("a", bytes(limit - len(head)), "", head)
    await until_heard(heard, 1)
    assert connection.losses == 0


@pytest.mark.parametrize("form", [framings.INSTALLED, framings.PLAIN], indirect=True)
async def test_a_server_that_does_not_read_is_sent_no_more_than_a_limit(
    connection: Connection, nats_server: NatsServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PENDING_BYTES", 8 << 20)
    heard: list[Received] = []
    connection.listen("a", heard.append)
    await connection.client.flush()
    nats_server.freeze()
    sent = 0

    async def send_without_end() -> None:
        nonlocal sent
        while sent < 1000:
            connection.client.send("a", bytes(1 << 20))
            sent += 1
            await asyncio.sleep(0)

    try:
        with pytest.raises(nats.errors.OutboundBufferLimitError):
            await send_without_end()
    finally:
        nats_server.thaw()
    assert sent < 100
    await until_heard(heard, sent)
    assert connection.losses == 0


async def test_answers_errors_and_missing_responders(connection: Connection) -> None:
    def answer(message: Received) -> None:
        connection.client.send(message.reply, message.data * 2)

    connection.listen("ask", answer)
    found = await asyncio.gather(*(connection.requests.request("ask", b"%d" % n, 5.0) for n in range(100)))
    assert [message.data for message in found] == [b"%d%d" % (n, n) for n in range(100)]
    with pytest.raises(nats.errors.NoRespondersError):
        await connection.requests.request("no.responders", b"", 5.0)
    assert connection.requests.in_flight == 0


async def test_a_direct_get_returns_the_sequence_or_404(connection: Connection) -> None:
    await make_streams(connection)
    await Publisher(connection).write(Write("cluster.node.a", b"data", 0))

    async def get(subject: str) -> Received:
        return await connection.requests.get(
            f"$JS.API.DIRECT.GET.CLUSTER.{subject}", b"", lambda message: message, RuntimeError, 5.0
        )

    found = await get("cluster.node.a")
    assert (found.field(b"Nats-Sequence"), found.data, found.status) == (b"1", b"data", "")
    assert (await get("cluster.node.b")).status == "404"

    def refuse(message: Received) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await connection.requests.get("$JS.API.DIRECT.GET.CLUSTER.cluster.node.a", b"", refuse, RuntimeError, 5.0)


async def test_writes_and_a_follower_agree_over_a_restart(connection: Connection, nats_server: NatsServer) -> None:
    await make_streams(connection)
    publisher = Publisher(connection, timeout=20.0)
    futures = [await publisher.send(Write(f"cluster.node.{n}", b"%d" % n, 0), ttl=100.0) for n in range(200)]
    sequences = await asyncio.gather(*futures)
    conflicting = [await publisher.send(Write(f"cluster.node.{n}", b"x", 0)) for n in range(50)]
    assert all(isinstance(e, Conflict) for e in await asyncio.gather(*conflicting, return_exceptions=True))
    batch = await publisher.send_atomic([Write(f"cluster.node.{n}", b"", sequences[n]) for n in range(20)])
    assert await batch == 220
    read = await Follower(connection, Stream.CLUSTER).read_to_end()
    assert [message.sequence for message in read] == list(range(21, 221))
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    await nats_server.restart()
    async with asyncio.timeout(60):
        await back.wait()
    assert [message.sequence for message in await Follower(connection, Stream.CLUSTER).read_to_end()] == list(
        range(21, 221)
    )


async def test_writes_in_flight_at_a_loss_are_unknown(connection: Connection, nats_server: NatsServer) -> None:
    await make_streams(connection)
    publisher = Publisher(connection, timeout=20.0)
    nats_server.freeze()
    future = await publisher.send(Write("cluster.node.a", b"", 0))
    await asyncio.sleep(0.05)
    nats_server.kill()
    async with asyncio.timeout(60):
        with pytest.raises(Unknown, match="connection was lost"):
            await future
    with pytest.raises(Unknown, match="not connected"):
        await publisher.write(Write("cluster.node.a", b"", 0))


async def test_what_is_not_the_protocol_ends_the_connection_and_a_new_one_begins(
    connection: Connection, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    stream = connection.client._transport.stream
    stream.get_protocol().data_received(b"HELLO\r\n")
    async with asyncio.timeout(60):
        await back.wait()
    assert connection.losses == 1
    assert form == framings.NATS_PY or "not its protocol" in caplog.text
    heard: list[Received] = []
    connection.listen("a", heard.append)
    connection.client.send("a")
    await until_heard(heard, 1)


async def test_what_is_for_nats_py_waits_bounded(
    connection: Connection, form: str, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription of nats-py beside listeners; its messages keep their order."""
    monkeypatch.setattr(connection_reader, "MAX_OTHERS", 10)
    numbers: list[int] = []
    heard: list[Received] = []

    async def slowly(message: nats.aio.msg.Msg) -> None:
        numbers.append(int(message.data))

    await connection.client.subscribe("b", cb=slowly)
    connection.listen("a", heard.append)
    for number in range(2000):
        connection.client.send("b", b"%d" % number)
        connection.client.send("a", b"%d" % number)
    await until_heard(heard, 2000)
    await until(lambda: len(numbers) >= 2000)
    assert numbers == list(range(2000))


async def test_an_error_of_the_server_is_reported(connection: Connection, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stream = connection.client._transport.stream
    stream.get_protocol().data_received(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\nINFO {}\r\n")
    await connection.client.flush()
    assert "permissions violation for publish" in caplog.text
    assert connection.losses == 0


async def test_a_request_by_the_names_of_nats_py_waits_five_seconds_by_default(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    async def request(*given: object) -> Received:
        asked.append(given)
        return Received("to", "", b"answer", b"NATS/1.0\r\nA: b\r\n\r\n")

    monkeypatch.setattr(connection.requests, "request", request)
    answer = await connection.client.request("a")
    assert (answer.subject, answer.data, answer.headers) == ("to", b"answer", {"A": "b"})
    await connection.client.request("a", b"data", 0.5, headers={"C": "d"})
    head = b"NATS/1.0\r\nC: d\r\n\r\n"
    assert asked == [("a", b"", 5.0, b""), ("a", b"data", 0.5, head)]
    assert connection.jetstream._timeout == 5.0
