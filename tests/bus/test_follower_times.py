"""When a follower counts as behind, silent or held, to the second; and what nats-server is asked to deliver."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams import follower as module
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.streams.streamstate import StreamState
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.requests import Unanswered
from deviceshare_bus.wire.tasks import end
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.nats_server import Server
from deviceshare_lab.world.virtual_time import run
from msgspec.structs import replace
from nats.js.api import AckPolicy, DeliverPolicy
from support.waiting import until


class At:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> At:
    return At()


def follower(clock: At, *, hold: float = 0.0, subject: str = ">") -> Follower:
    """Return a follower that has read its stream to the end at sequence 7, and is delivered to."""
    reader = Follower(cast("Connection", None), Stream.LEDGER, subject=subject, hold=hold)
    reader._clock = clock
    reader._held_until = clock.now + hold
    reader._read_to_end, reader._stale, reader.position = True, False, 7
    return reader


async def test_a_stream_is_known_once_it_was_read_to_its_end(clock: At) -> None:
    reader = follower(clock)
    assert (reader.obstacle, reader.caught_up) == ("", True)
    reader._stale = True
    assert reader.obstacle == "stream LEDGER is not delivered"
    reader._read_to_end = False
    assert (reader.obstacle, reader.caught_up) == ("stream LEDGER has not been read to its end yet", False)
    reader._copied = "stream LEDGER copies another one"
    assert reader.obstacle == "stream LEDGER copies another one"


async def test_a_new_stream_is_held_until_its_time_is_over(clock: At) -> None:
    reader = follower(clock, hold=15.0)
    assert (reader.obstacle, reader.caught_up) == ("stream LEDGER is new: decisions wait for 15 s", False)
    clock.now += 14.9
    assert not reader.caught_up
    assert reader.obstacle
    clock.now = 115.0
    assert (reader.obstacle, reader.caught_up) == ("", True)


async def test_a_bus_that_does_not_answer_for_more_than_three_seconds_is_an_obstacle(clock: At) -> None:
    reader = follower(clock)
    reader._unanswered_since = clock.now
    clock.now += 3.0
    assert reader.obstacle == ""
    clock.now += 0.01
    assert reader.obstacle == "the bus does not answer about stream LEDGER"


async def test_a_message_that_is_not_delivered_for_more_than_five_seconds_is_a_lag(
    clock: At, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reader = follower(clock)
    reader._behind = 8, clock.now
    clock.now += 5.0
    reader._report_lag(clock.now)
    assert (reader.obstacle, caplog.messages) == ("", [])
    clock.now += 0.01
    for _ in range(2):
        reader._report_lag(clock.now)
    assert reader.obstacle == "stream LEDGER is read to 7 of 8"
    assert caplog.messages == ["LEDGER: the reader is more than 5 s behind"]
    assert [(each.__dict__["position"], each.__dict__["last"]) for each in caplog.records] == [(7, 8)]
    reader.position = 8
    for _ in range(2):
        reader._report_lag(clock.now)
    assert reader.obstacle == ""
    assert caplog.messages[1:] == ["LEDGER: the reader has caught up"]


@pytest.mark.parametrize("change", ["part of the stream", "not read to its end"])
async def test_a_reader_that_is_not_expected_to_keep_up_is_not_reported(
    clock: At, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    reader = follower(clock, subject="ledger.1.>" if change == "part of the stream" else ">")
    reader._read_to_end = change == "part of the stream"
    reader._behind = 8, clock.now
    reader._report_lag(clock.now + 6)
    assert caplog.messages == []


@pytest.mark.parametrize("history", [False, True])
async def test_nats_server_delivers_with_a_heartbeat_every_second(
    connection: Connection, publisher: Publisher, history: bool
) -> None:
    async def read() -> None:
        async for _ in reader:
            pass

    await publisher.write(Write("ledger.1.n", b"1"))
    reader = Follower(connection, Stream.LEDGER, history=history)
    reading = asyncio.create_task(read())
    await until(lambda: reader.caught_up)
    (consumer,) = await connection.jetstream.consumers_info(Stream.LEDGER)
    config = consumer.config
    assert (config.idle_heartbeat, config.inactive_threshold, config.flow_control) == (1.0, 10.0, True)
    assert (config.ack_policy, config.max_deliver, config.num_replicas) == (AckPolicy.NONE, 1, 1)
    assert (config.mem_storage, config.durable_name, config.filter_subject) == (True, None, ">")
    assert config.deliver_policy == (DeliverPolicy.ALL if history else DeliverPolicy.LAST_PER_SUBJECT)
    await end(reading)


STATE = StreamState(epoch="a", server=("x",), led_since=1, messages=5, first=1, last=5, hold=0.0)
LOST = replace(STATE, epoch="b")


def in_virtual_time(test: Callable[[Follower, Connection], Awaitable[None]]) -> None:
    """Run a test with a follower of a simulated server that begins to read."""

    async def main() -> None:
        connection = SimulatedConnection(Server(random.Random(1), lambda *_: None), "test", random.Random(2))
        connection.listen(connection.requests.subject, connection.requests.answered)
        await make_streams(connection)
        await test(Follower(connection, Stream.LEDGER), connection)

    run(main, "1")


def now() -> float:
    return asyncio.get_running_loop().time()


def states(monkeypatch: pytest.MonkeyPatch, *answers: StreamState) -> list[float]:
    """Let nats-server answer so about the stream, the last answer for ever; return when it was asked."""
    asked: list[float] = []

    async def state(*_: object) -> StreamState:
        asked.append(now())
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr(module, "stream_state", state)
    return asked


@pytest.mark.parametrize(("led_since", "seconds"), [(1, 3.0), (0, 0.0)], ids=["of several servers", "of one"])
def test_a_stream_of_several_servers_is_lost_when_it_seems_so_for_three_seconds(
    monkeypatch: pytest.MonkeyPatch, led_since: int, seconds: float
) -> None:
    states(monkeypatch, *(replace(state, led_since=led_since) for state in (STATE, LOST)))

    async def test(reader: Follower, _: Connection) -> None:
        await reader._begin()
        if seconds:
            for pause in (seconds - 0.01, 0.02):
                with pytest.raises(Unanswered, match="stream LEDGER was created again, as one server says"):
                    await reader._begin()
                await asyncio.sleep(pause)
        with pytest.raises(BusWiped, match="stream LEDGER was created again"):
            await reader._begin()

    in_virtual_time(test)


def test_a_consumer_is_waited_for_two_seconds_and_longer_with_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    states(monkeypatch, STATE)

    async def test(reader: Follower, connection: Connection) -> None:
        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(connection.jetstream, "add_consumer", never)
        taken = []
        for _ in range(6):
            began = now()
            with pytest.raises(TimeoutError):
                await reader._begin()
            taken.append(now() - began)
        assert taken == pytest.approx([2, 4, 8, 16, 32, 32])

    in_virtual_time(test)


def test_the_state_of_a_stream_is_asked_for_every_second_and_a_missing_delivery_found_after_thirty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = states(monkeypatch, STATE)

    async def test(reader: Follower, _: Connection) -> None:
        reader._state, reader._stale = STATE, False
        reader._received.sequence = 4
        began = now()
        checks = asyncio.create_task(reader._check())
        while not reader._stale:
            await asyncio.sleep(0.01)
        found = now() - began
        await end(checks)
        assert [at - began for at in asked[:4]] == pytest.approx([1, 2, 3, 4])
        # First seen after one second, and not delivered for more than 30.
        assert 31.0 < found < 32.5

    in_virtual_time(test)
