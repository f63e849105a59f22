"""Requests to nats-server: each ends once, with its answer or a reason, and never swallows a cancellation."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams, wait_for_streams
from deviceshare_bus.streams.readback import read_back
from deviceshare_bus.wire import requests
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.framing import Received
from deviceshare_bus.wire.requests import Requests, Unanswered
from deviceshare_bus.wire.tasks import end, heed_cancellation
from nats.errors import NoRespondersError
from support.waiting import until


async def test_a_request_without_responders_raises(connection: Connection) -> None:
    with pytest.raises(NoRespondersError):
        await connection.client.request("no.responders", b"")
    assert connection.requests.in_flight == 0


async def test_the_wait_for_a_silent_server_ends_at_the_timeout(nats_server, connection: Connection) -> None:
    nats_server.freeze()
    try:
        with pytest.raises(Unanswered, match=r"no answer within 0\.2 s"):
            await connection.client.request("no.responders", b"", timeout=0.2)
    finally:
        nats_server.thaw()
    assert connection.requests.in_flight == 0


async def test_requests_to_a_killed_server_fail_at_once_and_nothing_is_sent_without_a_server(nats_server) -> None:
    connection = await connect(nats_server.url, "test")
    nats_server.freeze()
    asked = asyncio.create_task(connection.client.request("no.responders", b"", timeout=60))
    await asyncio.sleep(0.1)
    nats_server.kill()
    async with asyncio.timeout(60):
        with pytest.raises(Unanswered, match="connection was lost"):
            await asked
    with pytest.raises(Unanswered, match="not connected"):
        await connection.client.request("no.responders", b"")
    await connection.close()


async def test_closing_a_connection_ends_pending_requests(nats_server) -> None:
    connection = await connect(nats_server.url, "test")
    nats_server.freeze()
    asked = asyncio.create_task(connection.client.request("no.responders", b"", timeout=60))
    await asyncio.sleep(0.1)
    nats_server.thaw()
    connection.requests.lost()
    await connection.close()
    with pytest.raises((Unanswered, NoRespondersError)):
        await asked


async def test_many_requests_share_one_subscription(connection: Connection) -> None:
    before = len(connection.client._subs)
    infos = await asyncio.gather(*(connection.jetstream.stream_info(stream) for stream in Stream for _ in range(100)))
    assert [info.config.name for info in infos[::100]] == [stream.value for stream in Stream]
    assert len(connection.client._subs) == before


ASKING: dict[str, Callable[[Connection], Awaitable[object]]] = {
    "stream info": lambda connection: connection.jetstream.stream_info(Stream.CLUSTER),
    "read back": lambda connection: read_back(connection, Stream.CLUSTER, "cluster.node.a"),
    "waiting for streams": wait_for_streams,
    "making streams": make_streams,
}


@pytest.mark.parametrize("what", ASKING)
async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """With ``asyncio.wait_for`` on Python 3.11 each of them returns its answer as if nothing had been said."""
    answered = Requests.answered
    heard = 0

    def cancelled_and_answered(self: Requests, message: Received) -> None:
        nonlocal heard
        heard += 1
        answered(self, message)
        asking.cancel()

    monkeypatch.setattr(Requests, "answered", cancelled_and_answered)
    for sid in connection.client._listeners:
        connection.client._listeners[sid] = connection.requests.answered
    asking = asyncio.ensure_future(ASKING[what](connection))
    async with asyncio.timeout(60):
        await asyncio.wait({asking})
    assert asking.cancelled()
    assert heard == 1


async def test_a_cancellation_that_something_else_loses_is_raised_afterwards() -> None:
    started = asyncio.Event()

    async def swallowing() -> int:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return 1
        return 2

    task = asyncio.create_task(heed_cancellation(swallowing()))
    await started.wait()
    await end(task)
    assert task.cancelled()
    assert await heed_cancellation(asyncio.sleep(0, 3)) == 3


def failing_and_noting(noted: list[str]) -> Callable[[str, Received | str], None]:
    def answered(reply: str, answer: Received | str) -> None:
        noted.append(str(answer))
        raise ZeroDivisionError

    return answered


async def test_timeouts_go_on_after_a_callback_that_raises(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "SWEEP", 0.01)
    noted: list[str] = []
    for timeout in (0.0, 0.0, 0.1):
        connection.requests.expect(failing_and_noting(noted), timeout)
    await until(lambda: not connection.requests.in_flight)
    assert noted == ["no answer within 0.0 s", "no answer within 0.0 s", "no answer within 0.1 s"]
    assert caplog.text.count("cannot be handled") == 3
    connection.requests.expect(failing_and_noting(noted), 0.0)
    await until(lambda: len(noted) >= 4)


async def test_a_connection_is_restored_after_a_callback_that_raises(nats_server) -> None:
    connection = await connect(nats_server.url, "test")
    noted: list[str] = []
    for _ in range(2):
        connection.requests.expect(failing_and_noting(noted), 60.0)
    back = asyncio.Event()
    connection.on_reconnect(back.set)
    await nats_server.restart()
    async with asyncio.timeout(60):
        await back.wait()
    assert noted == ["the connection was lost"] * 2
    await connection.close()
