"""The watch of streams that a service does not follow, on states given by the test."""

import asyncio

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams import stream_watch as module
from deviceshare_bus.streams.follower import BusWiped
from deviceshare_bus.streams.stream_watch import StreamWatch
from deviceshare_bus.streams.streamstate import StreamState
from deviceshare_bus.wire.tasks import end
from msgspec.structs import replace
from nats.js.errors import NotFoundError

FULL = StreamState(epoch="one", server=("s",), led_since=0, messages=5, first=1, last=10, hold=0.0)


class Bus:
    """Streams with a state each; None: it does not exist."""

    connected = True
    creates_streams = True

    def __init__(self) -> None:
        self.states: dict[Stream, StreamState | None] = dict.fromkeys(Stream, FULL)
        self.asked: list[Stream] = []
        self.created = 0
        self.creates = True

    async def state(self, _connection, stream: Stream) -> StreamState:
        self.asked.append(stream)
        state = self.states[stream]
        if state is None:
            raise NotFoundError
        return state

    async def make(self, _connection, replicas: int, hold: float) -> None:
        assert (replicas, hold) == (3, 15.0)
        self.created += 1
        if not self.creates:
            raise OSError("the server is away")
        for stream, state in self.states.items():
            self.states[stream] = state or replace(FULL, epoch="two", last=0, messages=0)


@pytest.fixture
def bus(monkeypatch) -> Bus:
    bus = Bus()
    monkeypatch.setattr(module, "stream_state", bus.state)
    monkeypatch.setattr(module, "make_streams", bus.make)
    monkeypatch.setattr(module, "CHECK", 0.005)
    return bus


async def watch(bus: Bus, *changes, rewritten=(Stream.EXPLAIN,), followed=(Stream.CLUSTER,), keeps=True) -> StreamWatch:
    """Watch while the streams change; raise what the watch raises."""
    found = StreamWatch(bus, 3, 15.0)
    found.rewritten |= dict.fromkeys(rewritten, lambda: keeps)
    running = asyncio.create_task(found.run(followed))
    for change in ({}, *changes):
        bus.states |= change
        await asyncio.sleep(0.05)
        if running.done():
            running.result()
    await end(running)
    return found


async def test_streams_that_are_followed_are_left_to_their_followers(bus) -> None:
    await watch(bus)
    assert set(bus.asked) == set(Stream) - {Stream.CLUSTER}
    assert bus.created == 0
    bus.asked.clear()
    bus.connected = False
    await watch(bus)
    assert bus.asked == []


async def test_a_missing_stream_is_created_and_is_an_obstacle_as_long_as_it_is_missing(bus) -> None:
    bus.creates = False
    found = await watch(bus, {Stream.EVENT: None, Stream.OUTCOME: None})
    assert set(found.obstacle.removeprefix("stream ").removesuffix(" does not exist").split(", ")) == {
        "EVENT",
        "OUTCOME",
    }
    assert bus.created > 1
    bus.creates, bus.created = True, 0
    found = await watch(bus)
    assert (found.obstacle, bus.created) == ("", 1)


async def test_on_a_bus_with_users_a_missing_stream_is_left_to_the_set_up_step(bus, caplog) -> None:
    bus.creates_streams = False
    found = await watch(bus, {Stream.EVENT: None})
    assert (found.obstacle, bus.created) == ("stream EVENT does not exist", 0)
    waiting = [record for record in caplog.records if "waiting for the set-up step" in record.message]
    assert len(waiting) == 1


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        (replace(FULL, last=11, messages=6), False),
        (replace(FULL, messages=1), False),
        (replace(FULL, messages=0), True),
        (replace(FULL, last=9), True),
        (replace(FULL, epoch="two", last=12), True),
    ],
)
async def test_a_service_starts_anew_if_what_it_writes_is_lost(bus, state, lost) -> None:
    if lost:
        with pytest.raises(BusWiped, match="stream EXPLAIN has lost the messages of this service"):
            await watch(bus, {Stream.EXPLAIN: state})
        bus.states[Stream.EXPLAIN] = FULL
    else:
        await watch(bus, {Stream.EXPLAIN: state})
    await watch(bus, {Stream.EVENT: state})  # nothing of it is written again


async def test_a_stream_that_was_empty_is_not_lost_while_it_is_empty(bus) -> None:
    empty = replace(FULL, last=10, messages=0)
    bus.states[Stream.EXPLAIN] = empty
    await watch(bus, {Stream.EXPLAIN: empty}, {Stream.EXPLAIN: FULL})


async def test_a_stream_whose_messages_have_all_expired_is_not_lost(bus) -> None:
    await watch(bus, {Stream.EXPLAIN: replace(FULL, messages=0)}, keeps=False)


async def test_the_answer_of_a_server_that_does_not_lead_any_more_is_ignored(bus) -> None:
    leader, former = replace(FULL, led_since=2), replace(FULL, led_since=1, last=9)
    bus.states[Stream.EXPLAIN] = leader
    await watch(bus, {Stream.EXPLAIN: former}, {Stream.EXPLAIN: leader})
    with pytest.raises(BusWiped):
        await watch(bus, {Stream.EXPLAIN: former}, {Stream.EXPLAIN: replace(former, led_since=3)})
