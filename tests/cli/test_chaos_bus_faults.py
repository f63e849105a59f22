"""The faults of ``deviceshare lab chaos`` that copy, restore and remove files of the bus, with users and without."""

import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from deviceshare_bus.messages.subjects import ledger, outcome
from deviceshare_bus.wire.connection import Connection
from deviceshare_lab.chaos.real.bus_faults import SNAPSHOTS, STREAMS, BusFaults
from deviceshare_lab.chaos.real.judge import Expected, Judge
from deviceshare_lab.chaos.real.options import Options
from deviceshare_lab.chaos.real.system import BUS, NoEffect, System, running
from deviceshare_lab.chaos.real.users import STRANGER

SUBJECTS = dict(zip(STREAMS, ("cluster.node.n", ledger("n"), outcome("n"), "explain.u", "event.x"), strict=True))


class Bus(NamedTuple):
    """The servers of a run without services, and what breaks them."""

    system: System
    connection: Connection
    faults: BusFaults

    async def write(self, data: bytes) -> None:
        """Write a message to each stream; the last one of a subject counts."""
        for subject in SUBJECTS.values():
            publish = partial(self.connection.jetstream.publish, subject, data)
            await self.connection.repeat(publish, "cannot write yet")

    async def read(self) -> dict[str, bytes | None]:
        """Return the last message of each stream."""
        get = self.connection.jetstream.get_last_msg
        return {
            stream: (await self.connection.repeat(partial(get, stream, subject), "cannot read yet")).data
            for stream, subject in SUBJECTS.items()
        }


@pytest.fixture(params=["users", "open"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bus]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path / "run"))
    options = Options(1, 60.0, None, (), 1.0, {}, 1.0, 60.0, 2, request.param == "users")
    async with running(options, random.Random(1), lambda: False) as system:
        connection = await system.connect("test", STRANGER)
        judge = Judge(connection, cast("Any", None), Expected((), "", ""))
        yield Bus(system, connection, BusFaults(system, connection, judge, random.Random(1)))
        await connection.close()


async def test_streams_are_rolled_back_to_a_copy_of_the_store(bus: Bus) -> None:
    for streams in (*([stream] for stream in STREAMS), STREAMS):
        await bus.write(b"kept")
        for _ in range(SNAPSHOTS):
            await bus.faults.take_snapshot()
        await bus.write(b"lost")
        hit: list[str] = []
        await bus.faults.roll_back(streams, hit.append)
        assert await bus.read() == {stream: b"kept" if stream in streams else b"lost" for stream in STREAMS}
        assert [part.partition(" ")[0] for part in hit[0].split(", ")] == list(streams)
    assert len([*bus.system.directory.glob("snapshot-*")]) == SNAPSHOTS


async def test_a_lost_store_is_rolled_back(bus: Bus) -> None:
    await bus.write(b"kept")
    await bus.faults.take_snapshot()
    hit: list[str] = []
    await bus.faults.wipe(hit.append)
    await bus.write(b"lost")
    await bus.faults.delete_stream("LEDGER", hit.append)
    await bus.faults.roll_back(["LEDGER"], hit.append)
    assert await bus.read() == {stream: b"kept" if stream == "LEDGER" else b"lost" for stream in STREAMS}
    assert len(hit) == 3


async def test_a_stream_that_the_copy_lacks_is_not_rolled_back(bus: Bus) -> None:
    await bus.faults.take_snapshot()
    await bus.write(b"kept")
    (copied,) = bus.system.directory.glob("snapshot-*/jetstream/*/streams/EXPLAIN")
    shutil.rmtree(copied)
    with pytest.raises(NoEffect, match="EXPLAIN"):
        await bus.faults.roll_back(["EXPLAIN"], lambda hit: pytest.fail(hit))
    assert bus.system.runs(BUS)
    assert set((await bus.read()).values()) == {b"kept"}


async def test_no_copy_is_made_of_a_store_whose_server_does_not_run(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    async def end() -> dict[str, int]:
        await bus.system.supervisor.stop([bus.system.bus_program.name])
        return dict.fromkeys(STREAMS, 0)

    monkeypatch.setattr(bus.faults, "_sequences", end)
    await bus.faults.take_snapshot()
    assert [*bus.system.directory.glob("snapshot-*")] == []


async def test_the_disk_of_the_bus_is_filled_and_freed(bus: Bus) -> None:
    await bus.write(b"before")
    await bus.faults.fill_disk(0.1, lambda hit: None)
    await bus.write(b"after")
    assert set((await bus.read()).values()) == {b"after"}
