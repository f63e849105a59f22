"""The shell on a real nats-server, around a core that counts messages and writes their number."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from deviceshare.model import ConfigError, Explanation
from deviceshare_bus.cores.conditional_writer import ConditionalWriter
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Log,
    Now,
    PutLatest,
    ReadBack,
    RecordStep,
    Stopping,
    Tick,
    Unreadable,
    WriteConflict,
    WriteUnknown,
    Written,
)
from deviceshare_bus.cores.core_log import read_dump, replay
from deviceshare_bus.messages.codec import Message, decode_explanation, encode
from deviceshare_bus.runtime import invalid_messages
from deviceshare_bus.runtime.options import core_log_limit
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.streams.expiring import expire_others
from deviceshare_bus.streams.publisher import Write as BusWrite
from support.service import at_work
from support.waiting import until

COUNTER = "explain.counter"


class Seen(Event, frozen=True):
    uid: str


class Double(Command, frozen=True):
    number: int


class Doubled(Event, frozen=True):
    number: int


decode_event = msgspec.msgpack.Decoder(Seen | Doubled | CaughtUp | Written | Tick).decode


class CountingCore:
    """Counts explanations, writes the count under one subject with compare-and-set, and has it doubled."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.count = 0
        self.written = 0
        self.doubled = 0
        self.due: float | None = None
        self.writer: ConditionalWriter[int] = ConditionalWriter("EXPLAIN")

    @property
    def open_work(self) -> int:
        return (self.written != self.count) + self.writer.open

    def next_due(self, now: Now) -> float | None:
        return self.due

    def handle(self, event: Event, now: Now) -> list[Command]:
        self.events.append(event)
        match event:
            case Seen(uid="crash"):
                raise RuntimeError("a defect of the core")
            case Seen():
                self.count += 1
            case Doubled(number=number):
                self.doubled = number
                return [Log("warning", f"doubled to {number}", {"number": number})]
            case Written() | WriteConflict() | WriteUnknown():
                completed = self.writer.handle(event)
                if isinstance(event, Written):
                    self.written = completed.context
                return completed.commands
            case ReadBack(subject=subject, sequence=sequence):
                self.writer.read_back(subject, sequence)
            case Tick() if self.count != self.written and not self.writer.busy(COUNTER):
                message = Explanation(uid="counter", namespace="", name=str(self.count), at=0.0, decision="placed")
                return [
                    self.writer.write([(COUNTER, message)], self.count),
                    RecordStep("uid", "default/a", "counted", at=1.0),
                    Count("counted"),
                    PutLatest("explain.latest", message),
                    Double(self.count),
                ]
        return []


def decode(message) -> Event | None:
    uid = decode_explanation(message.data).uid
    return Seen(uid) if uid not in ("counter",) else None


async def perform(command: Command) -> Event | None:
    assert isinstance(command, Double)
    await asyncio.sleep(0)
    return Doubled(2 * command.number)


@asynccontextmanager
async def shell_of(
    core: CountingCore, url: str, known: Callable[[Message], bool] | None = None
) -> AsyncIterator[tuple[Context, Shell]]:
    shells: list[Shell] = []

    async def main(context: Context) -> None:
        shells.append(Shell(context, core, [Source("EXPLAIN", decode, known)], perform))
        await shells[0].run()

    async with at_work("counting", main, url) as context:
        await until(lambda: shells)
        yield context, shells[0]


def explanation(uid: str) -> bytes:
    return encode(Explanation(uid=uid, namespace="default", name="a", at=0.0, decision="pending"))


async def test_events_reach_the_core_and_commands_are_executed(nats_url, connection, publisher, caplog):
    caplog.set_level(logging.WARNING)
    await publisher.write(BusWrite("explain.a", explanation("a")))
    core = CountingCore()
    async with shell_of(core, nats_url) as (context, shell):
        await until(lambda: core.doubled == 2)
        assert core.events[:2] == [Seen("a"), CaughtUp("EXPLAIN")]
        await publisher.write(BusWrite("explain.b", explanation("b")))
        await until(lambda: core.doubled == 4 and not context.open_work())
        found = await connection.jetstream.get_last_msg("EXPLAIN", COUNTER)
        assert decode_explanation(found.data).name == "2"
        assert (await connection.jetstream.get_last_msg("EXPLAIN", "explain.latest")).data
        assert context.status().open == 0
        assert [record.getMessage() for record in caplog.records][-1] == "doubled to 4"
        header, entries = read_dump(io.BytesIO(shell.core_log.dump()))
        assert (header.service, header.dropped) == ("counting", 0)
        replayed = list(replay(CountingCore(), entries, decode_event))
        assert [each.event for each in replayed] == core.events
        assert all(each.identical for each in replayed)


async def test_a_message_that_cannot_be_decoded_is_put_in_quarantine(nats_url, publisher):
    await publisher.write(BusWrite("explain.x", b"\xc1"))
    core = CountingCore()
    async with shell_of(core, nats_url):
        await until(lambda: CaughtUp("EXPLAIN") in core.events)
        first = core.events[0]
        assert isinstance(first, Unreadable)
        assert (first.stream, first.subject, first.sequence, first.newer) == ("EXPLAIN", "explain.x", 1, False)
        assert "invalid opcode" in first.reason


@pytest.mark.parametrize("space", ["\x0b", "\x0c"])
async def test_a_subject_with_white_space_is_put_in_quarantine(nats_url, publisher, space: str) -> None:
    await publisher.write(BusWrite(f"explain.x{space}y", b"\xc1"))
    core = CountingCore()
    async with shell_of(core, nats_url):
        await until(lambda: CaughtUp("EXPLAIN") in core.events)
        first = core.events[0]
        assert isinstance(first, Unreadable)
        assert first.subject == f"explain.x{space}y"


async def test_the_deletion_of_an_invalid_message_is_noticed(nats_url, publisher, connection, monkeypatch, caplog):
    monkeypatch.setattr(invalid_messages, "RECHECK", 0.05)
    await publisher.write(BusWrite("explain.x", b"\xc1"))
    core = CountingCore()
    async with shell_of(core, nats_url):
        await until(lambda: CaughtUp("EXPLAIN") in core.events)
        await asyncio.sleep(0.2)
        assert not [each for each in core.events if isinstance(each, ReadBack)]
        await connection.jetstream.purge_stream("EXPLAIN", subject="explain.x")
        await until(lambda: ReadBack("explain.x", 0) in core.events)
        await asyncio.sleep(0.2)
    assert core.events.count(ReadBack("explain.x", 0)) == 1
    assert [each.getMessage() for each in caplog.records if "quarantined" in each.getMessage()] != []


async def test_invalid_messages_are_looked_for_together(nats_url, publisher, monkeypatch):
    waiting = 0

    async def slow(*_: object) -> None:
        nonlocal waiting
        waiting += 1
        await asyncio.sleep(60.0)

    monkeypatch.setattr(invalid_messages, "RECHECK", 0.05)
    monkeypatch.setattr(invalid_messages, "read_back", slow)
    await publisher.write(BusWrite("explain.x", b"\xc1"))
    await publisher.write(BusWrite("explain.y", b"\xc1"))
    async with shell_of(CountingCore(), nats_url):
        await until(lambda: waiting == 2)


async def test_a_message_that_comes_while_an_invalid_one_is_looked_for_is_not_taken_for_deleted(
    nats_url, publisher, monkeypatch
):
    core = CountingCore()

    async def overtaken(*_: object) -> None:
        await publisher.write(BusWrite("explain.x", explanation("x")))
        await until(lambda: Seen("x") in core.events)

    monkeypatch.setattr(invalid_messages, "RECHECK", 0.05)
    monkeypatch.setattr(invalid_messages, "read_back", overtaken)
    await publisher.write(BusWrite("explain.x", b"\xc1"))
    async with shell_of(core, nats_url):
        await until(lambda: Seen("x") in core.events)
        await asyncio.sleep(0.2)
    assert ReadBack("explain.x", 0) not in core.events


async def test_another_writer_s_message_is_read_back_before_the_next_write(nats_url, publisher):
    core = CountingCore()
    async with shell_of(core, nats_url) as (context, _):
        await until(lambda: CaughtUp("EXPLAIN") in core.events)
        await publisher.write(BusWrite(COUNTER, explanation("counter")))
        await publisher.write(BusWrite("explain.a", explanation("a")))
        await until(lambda: core.written == 1 and not context.open_work())
        assert [type(event) for event in core.events if isinstance(event, WriteConflict | ReadBack)] == [
            WriteConflict,
            ReadBack,
        ]


async def test_the_timer_of_the_core_ticks_without_events(nats_url, connection):
    core = CountingCore()
    async with shell_of(core, nats_url):
        await until(lambda: CaughtUp("EXPLAIN") in core.events)
        await asyncio.sleep(0.05)
        ticks = sum(isinstance(event, Tick) for event in core.events)
        assert ticks <= 2, "nothing is due"
        core.due = 0.0
        await connection.jetstream.publish("explain.c", explanation("c"))
        await until(lambda: sum(isinstance(event, Tick) for event in core.events) > ticks + 5)


async def test_an_exception_of_the_core_ends_the_service_and_leaves_a_core_log(
    nats_url, connection, publisher, tmp_path, monkeypatch
):
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(logs))
    core = CountingCore()
    async with shell_of(core, nats_url):
        await publisher.write(BusWrite("explain.crash", explanation("crash")))
        await until(lambda: any(logs.iterdir()))
    (path,) = logs.iterdir()
    with path.open("rb") as file:
        header, entries = read_dump(file)
        assert header.service == "counting"
        with pytest.raises(RuntimeError, match="a defect of the core"):
            list(replay(CountingCore(), entries, decode_event))


async def test_a_core_log_that_cannot_be_written_is_reported_beside_the_failure(
    nats_url, publisher, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(tmp_path / "none"))
    core = CountingCore()
    async with shell_of(core, nats_url):
        await publisher.write(BusWrite("explain.crash", explanation("crash")))
        await until(lambda: "the core log cannot be written" in caplog.text)
    assert "none" in caplog.text


@pytest.mark.parametrize("entries", ["abc", "0", "-5", "1e3", "9" * 10])
def test_a_wrong_number_of_core_log_entries_is_a_configuration_error(entries, monkeypatch):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_ENTRIES", entries)
    with pytest.raises(ConfigError, match="environment: DEVICESHARE_CORE_LOG_ENTRIES"):
        core_log_limit()


async def test_a_connection_that_ends_for_good_leaves_no_core_log(nats_url, tmp_path, monkeypatch):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(tmp_path))
    async with shell_of(CountingCore(), nats_url) as (context, _):
        await context.connection.client._process_err("'Maximum Connections Exceeded'")
        await until(lambda: context.connection.failure is not None)
        await asyncio.sleep(0.3)  # the followers raise it
    assert not list(tmp_path.glob("*.corelog"))


async def test_a_message_that_the_core_knows_is_not_decoded(nats_url, publisher):
    core = CountingCore()
    async with shell_of(core, nats_url, lambda message: message.subject == "explain.known"):
        await publisher.write(BusWrite("explain.known", b"not an explanation"))
        await publisher.write(BusWrite("explain.new", explanation("new")))
        await until(lambda: any(isinstance(event, Seen) for event in core.events))
    assert not [event for event in core.events if isinstance(event, Unreadable)]


async def test_explanations_of_deleted_pods_expire(nats_url, connection, publisher):
    for uid in ("kept", "gone", "expiring"):
        await publisher.write(BusWrite(f"explain.{uid}", explanation(uid)), ttl=3600.0 if uid == "expiring" else None)
    await expire_others(connection, publisher, "EXPLAIN", ["explain.kept"], 1.0)
    await until_async(lambda: subjects_of(connection), {"explain.kept", "explain.expiring"})
    found = await connection.jetstream.get_last_msg("EXPLAIN", "explain.kept")
    assert found.seq == 1


async def test_an_explanation_that_is_replaced_meanwhile_does_not_expire(nats_url, connection, publisher, monkeypatch):
    """The other explanations expire all the same."""
    for number in range(4):
        await publisher.write(BusWrite(f"explain.{number}", explanation(str(number))))
    last, asked = connection.jetstream.get_last_msg, []

    async def replaced(stream, subject):
        found = await last(stream, subject)
        asked.append(subject)
        if len(asked) == 1:
            await publisher.write(BusWrite(subject, found.data))
        return found

    monkeypatch.setattr(connection.jetstream, "get_last_msg", replaced)
    await expire_others(connection, publisher, "EXPLAIN", [], 1.0)
    await until_async(lambda: subjects_of(connection), {asked[0]})


async def subjects_of(connection):
    info = await connection.jetstream.stream_info("EXPLAIN", subjects_filter=">")
    return set(info.state.subjects or {})


async def until_async(value, expected) -> None:
    async with asyncio.timeout(60):
        while await value() != expected:
            await asyncio.sleep(0.05)


class StoppingCore(CountingCore):
    """Writes its count when it is stopped, then the end of its lease, then has a command of its own executed."""

    def handle(self, event: Event, now: Now) -> list[Command]:
        if not isinstance(event, Stopping):
            return super().handle(event, now)
        message = Explanation(uid="counter", namespace="", name="last", at=0.0, decision="placed")
        step = RecordStep("uid", "default/last", "bound", "n", "", 0.0)
        return [self.writer.write([(COUNTER, message)], 1), PutLatest("explain.fence", message), step, Double(4)]


async def test_a_core_that_is_stopped_writes_what_it_has_delayed_before_its_lease_ends(
    nats_url, connection, monkeypatch
):
    core = StoppingCore()
    steps, counts = [], {}
    async with shell_of(core, nats_url) as (context, shell):
        await until(lambda: any(isinstance(event, CaughtUp) for event in core.events))
        monkeypatch.setattr(context.events, "step", lambda step: steps.append(step.name))
        monkeypatch.setattr(context.events, "count", counts.__setitem__)
        waits = Explanation(uid="waits", namespace="", name="waits", at=0.0, decision="placed")
        shell._commands += [PutLatest("explain.waits", waits), Count("last", 3)]  # not executed yet
    assert core.written == 1, "the answer was applied"
    assert core.doubled == 8, "the last command was executed and its answer applied"
    assert await connection.jetstream.get_last_msg("EXPLAIN", "explain.waits")
    assert "bound" in steps
    assert counts["last"] == 3
    last = connection.jetstream.get_last_msg
    written, fence = [await last("EXPLAIN", subject) for subject in (COUNTER, "explain.fence")]
    assert decode_explanation(written.data).name == "last"
    assert written.seq < fence.seq
