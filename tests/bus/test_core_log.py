"""The bound of the core log."""

import io

import msgspec
import pytest
from deviceshare_bus.cores import core_log
from deviceshare_bus.cores.core import CaughtUp, Event, Log, Now, SubjectWrite, Tick, Write
from deviceshare_bus.cores.core_log import CoreLog, read_dump, replay


class Large(Event, frozen=True):
    number: int

    @property
    def size(self) -> int:
        return self.number


def dumped(*events: Event) -> tuple[int, int]:
    """Return how many entries a log of size 10 keeps and how many it has dropped."""
    log = CoreLog("test", "test", {}, limit=10)
    for event in events:
        log.append(Now(0.0, 0.0), event, [])
    header, entries = read_dump(io.BytesIO(log.dump()))
    return len(list(entries)), header.dropped


def test_the_sizes_of_events_count_against_the_bound():
    small = CaughtUp("CLUSTER")
    assert dumped(*[small] * 12) == (10, 2)
    assert dumped(*[small] * 10, Large(4)) == (7, 4)
    assert dumped(small, Large(100)) == (1, 1), "the latest event is kept"
    assert dumped(Large(100), small) == (1, 1)


class Objects(Event, frozen=True):
    raw: bytes

    @property
    def data_bytes(self) -> int:
        return len(self.raw)


def test_the_bytes_of_messages_objects_and_writes_count_against_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_log, "LOG_BYTES", 1000)
    log = CoreLog("test", "test", {})
    written = [Write(1, (SubjectWrite("a", b"w" * 200),))]
    for _ in range(100):
        log.append(Now(0.0, 0.0), Objects(b"o" * 200), written, message=100)
    header, entries = read_dump(io.BytesIO(log.dump()))
    assert (len(list(entries)), header.dropped) == (2, 98)
    for _ in range(100):
        log.append(Now(0.0, 0.0), Tick(), [])
    assert len(list(read_dump(io.BytesIO(log.dump()))[1])) == 102, "small events are kept"


class Logging:
    """A core that logs the number of its events."""

    def __init__(self, first: int = 1) -> None:
        self.count = first - 1

    def handle(self, event: Event, now: Now) -> list[Log]:
        self.count += 1
        return [Log("info", f"{self.count} at {now.wall}")]


decode = msgspec.msgpack.Decoder(CaughtUp | Tick).decode


def recorded() -> bytes:
    core, log = Logging(), CoreLog("test", "test-1", {"a": 1})
    for number, event in enumerate((Tick(), CaughtUp("CLUSTER"), Tick())):
        now = Now(float(number), 100.0 + number)
        log.append(now, event, core.handle(event, now))
    return log.dump()


def test_a_dump_is_read_and_replayed() -> None:
    header, entries = read_dump(io.BytesIO(recorded()))
    assert (header.service, header.instance, header.arguments, header.dropped) == ("test", "test-1", {"a": 1}, 0)
    replayed = list(replay(Logging(), entries, decode))
    assert [each.event for each in replayed] == [Tick(), CaughtUp("CLUSTER"), Tick()]
    assert [each.now for each in replayed] == [Now(0.0, 100.0), Now(1.0, 101.0), Now(2.0, 102.0)]
    assert [each.identical for each in replayed] == [True] * 3
    _, entries = read_dump(io.BytesIO(recorded()))
    assert [each.identical for each in replay(Logging(first=2), entries, decode)] == [False] * 3


def test_a_dump_that_is_cut_off_anywhere_is_an_error_or_has_fewer_entries() -> None:
    whole, counts, messages = recorded(), set(), set()
    for size in range(len(whole)):
        try:
            _, entries = read_dump(io.BytesIO(whole[:size]))
            counts.add(len(list(entries)))
        except ValueError as error:
            messages.add(str(error))
    assert counts == {0, 1, 2}, "only between two entries"
    assert all(message.startswith("the file is not a core log") for message in messages)


@pytest.mark.parametrize("other", [b"\x00\x00\x00\x01\xc1", b"#!/bin/sh\n", b"\x00\x00\x00\x00"])
def test_another_file_is_no_core_log(other) -> None:
    with pytest.raises(ValueError, match="not a core log"):
        read_dump(io.BytesIO(other))


def test_a_dump_of_another_version_says_so() -> None:
    assert recorded().count(b"\xa1v\x01") == 1
    with pytest.raises(ValueError, match="version 2, expected 1"):
        read_dump(io.BytesIO(recorded().replace(b"\xa1v\x01", b"\xa1v\x02")))
