"""Steps and counters of a service are published together, each once."""

import asyncio

import pytest
from deviceshare_bus.cores.core import RecordStep
from deviceshare_bus.messages.codec import Events, Message
from deviceshare_bus.runtime import eventlog
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.wire.tasks import end
from msgspec import msgpack


class Publisher:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Events] = []

    async def send(self, write, **_) -> asyncio.Future[int]:
        assert write.subject == "event.binder"
        self.sent.append(msgpack.decode(write.data, type=Events))
        future = asyncio.get_running_loop().create_future()
        future.set_result(1)
        return future


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture
def events(publisher) -> EventLog:
    return EventLog(publisher, "binder", "binder-1")


async def test_what_was_collected_is_published_once(events, publisher) -> None:
    await events.flush()
    assert publisher.sent == []
    events.step(RecordStep("u", "default/a", "bound", "n1", "why", at=2.0))
    events.count("conflicts")
    events.count("conflicts", 2)
    events.quarantine("LEDGER", Message("ledger.1.n", 7, b"\xc1"), ValueError("no message"))
    await events.flush()
    await events.flush()
    (message,) = publisher.sent
    assert (message.service, message.instance) == ("binder", "binder-1")
    (step,) = message.steps
    assert (step.uid, step.pod, step.name, step.at, step.node, step.message) == (
        "u", "default/a", "bound", 2.0, "n1", "why",
    )  # fmt: skip
    assert message.counters == {"conflicts": 3, "undecodable_messages": 1}
    (found,) = message.undecodable
    assert (found.stream, found.subject, found.sequence, found.data) == ("LEDGER", "ledger.1.n", 7, b"\xc1")
    events.count("conflicts")
    await events.flush()
    assert publisher.sent[1].counters == {"conflicts": 1}
    assert publisher.sent[1].steps == publisher.sent[1].undecodable == ()


async def test_a_step_without_a_time_happened_now(events, publisher, monkeypatch) -> None:
    monkeypatch.setattr(eventlog.time, "time", lambda: 5.0)
    events.step(RecordStep("u", "default/a", "bound"))
    await events.flush()
    assert (publisher.sent[0].steps[0].at, publisher.sent[0].at) == (5.0, 5.0)


async def test_steps_are_collected_for_a_while_unless_there_are_many(events, publisher, monkeypatch) -> None:
    monkeypatch.setattr(eventlog, "INTERVAL", 0.5)
    monkeypatch.setattr(eventlog, "FULL", 3)
    clock = asyncio.get_running_loop().time
    running = asyncio.create_task(events.run())

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while len(publisher.sent) < count:
                await asyncio.sleep(0.005)

    try:
        await asyncio.sleep(0.01)
        begun = clock()
        events.step(RecordStep("a", "default/a", "bound"))
        await asyncio.sleep(0.05)
        events.count("conflicts")
        await until(1)
        assert clock() - begun > 0.4
        assert (len(publisher.sent[0].steps), publisher.sent[0].counters) == (1, {"conflicts": 1})
        for _ in range(3):
            events.step(RecordStep("a", "default/a", "bound"))
        begun = clock()
        await until(2)
        assert clock() - begun < 0.4
        assert len(publisher.sent[1].steps) == 3
        await asyncio.sleep(0.6)
        assert len(publisher.sent) == 2, "nothing was collected"
    finally:
        await end(running)
