"""Faults of the bus: its process, its store, its streams, its disk."""

import asyncio
import random
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deviceshare_bus.wire.connection import Connection
from nats.errors import Error as NatsError
from nats.js.api import StorageType, StreamConfig

from deviceshare_lab.chaos.real.judge import Judge
from deviceshare_lab.chaos.real.system import BUS, QUOTA, NoEffect, System

STREAMS = ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")
SNAPSHOTS = 3
"""Copies of the store that are kept."""
LIMITED = 0.2
"""Seconds after which a server that was restarted is limited again."""
FILLER = "FILLER"
PIECE = 4 << 20
"""Bytes of a message that fills the store."""


Began = Callable[[str], None]


class Snapshot(NamedTuple):
    """A copy of the store, and the last sequence of each stream in it."""

    path: Path
    sequences: dict[str, int]


class BusFaults:
    """Breaks the bus; faults of the store exclude each other. Each calls ``began`` as soon as it has an effect."""

    def __init__(self, system: System, bus: Connection, judge: Judge, chance: random.Random) -> None:
        self._system, self._bus, self._judge, self._chance = system, bus, judge, chance
        self._lock = asyncio.Lock()
        self._snapshots: list[Snapshot] = []
        self._number = 0

    async def kill(self, seconds: float, began: Began) -> None:
        """Kill the server, and start it again after some time."""
        async with self._lock:
            began("its nats-server")
            await self._system.restart_bus(seconds=seconds)

    async def pause(self, seconds: float, began: Began) -> None:
        """Suspend the server."""
        async with self._lock:
            await self._system.pause(BUS, seconds, lambda: began("its nats-server"))

    async def take_snapshot(self) -> None:
        """Copy the store as it is on disk, to roll back to it later, unless the server does not run."""
        async with self._lock:
            sequences = await self._sequences()
            self._number += 1
            path = self._system.directory / f"snapshot-{self._number}"
            with suppress(NoEffect):
                async with self._system.paused(BUS):
                    await asyncio.to_thread(shutil.copytree, self._system.store, path)
                self._snapshots.append(Snapshot(path, sequences))
            if len(self._snapshots) > SNAPSHOTS:
                await asyncio.to_thread(shutil.rmtree, self._snapshots.pop(0).path)

    async def wipe(self, began: Began) -> None:
        """Lose the whole store."""
        async with self._lock:
            began("the whole store")
            await self._system.restart_bus(lambda store: shutil.rmtree(store, ignore_errors=True))
            self._judge.damaged()

    async def roll_back(self, streams: Sequence[str], began: Began) -> None:
        """Lose the latest writes of some streams, or of all. Raises NoEffect if there are none."""
        async with self._lock:
            now = await self._sequences()
            fallen = [
                (snapshot, lost, parts)
                for snapshot in self._snapshots
                if (lost := [name for name in streams if snapshot.sequences.get(name) not in (None, now.get(name))])
                and (parts := [Path()] if len(streams) > 1 else _directories(snapshot.path, lost[0]))
            ]
            if not fallen:
                raise NoEffect(f"nothing was written to {', '.join(streams)} since the last copy of the store")
            snapshot, lost, parts = self._chance.choice(fallen)

            def replace(store: Path) -> None:
                for part in parts:
                    shutil.rmtree(store / part, ignore_errors=True)
                    shutil.copytree(snapshot.path / part, store / part)

            began(", ".join(f"{name} from {now.get(name, 0)} to {snapshot.sequences[name]}" for name in lost))
            await self._system.restart_bus(replace)
            self._judge.damaged()

    async def delete_stream(self, stream: str, began: Began) -> None:
        """Delete a stream."""
        async with self._lock:
            began(stream)
            await self._bus.repeat(lambda: self._bus.jetstream.delete_stream(stream), "cannot delete a stream yet")
            self._judge.damaged()

    async def empty_stream(self, stream: str, began: Began) -> None:
        """Delete the messages of a stream."""
        async with self._lock:
            began(stream)
            await self._bus.repeat(lambda: self._bus.jetstream.purge_stream(stream), "cannot empty a stream yet")
            self._judge.damaged()

    async def _sequences(self) -> dict[str, int]:
        """Return the last sequence of each stream."""
        infos = await self._bus.repeat(self._bus.jetstream.streams_info, "cannot read the streams yet")
        return {info.config.name or "": info.state.last_seq for info in infos}

    async def refuse_writes(self, seconds: float, began: Began) -> None:
        """Let every write of the server to a file fail for some time, also after a restart, as on a full disk.

        Raises NoEffect if this system cannot do so.
        """
        if not hasattr(resource, "prlimit"):
            raise NoEffect("only Linux limits the files of another process")
        async with self._lock:
            until = time.monotonic() + seconds
            began("its nats-server")
            try:
                while time.monotonic() < until:
                    self._limit_files(0)
                    await asyncio.sleep(LIMITED)
            finally:
                self._limit_files(None)

    def _limit_files(self, size: int | None) -> None:
        """Limit the size of the files to which the server can write, None for as far as it is allowed."""
        pid = self._system.pid(BUS)
        if pid is not None:
            with suppress(ProcessLookupError):
                _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))

    async def fill_disk(self, seconds: float, began: Began) -> None:
        """Fill the space of the store for some time."""
        jetstream = self._bus.jetstream
        async with self._lock:
            config = StreamConfig(name=FILLER, subjects=["filler"], storage=StorageType.FILE)
            await self._bus.repeat(lambda: jetstream.add_stream(config), "cannot make the filler yet")
            written, size = 0, PIECE
            try:
                # Ever smaller pieces, until not even a small message has room.
                while size >= 64 and written < 2 * QUOTA:
                    try:
                        await jetstream.publish("filler", b"\0" * size)
                        written += size
                    except (NatsError, TimeoutError):
                        size //= 8
                began(f"{written >> 20} MiB were free")
                await asyncio.sleep(seconds)
            finally:
                await self._bus.repeat(lambda: jetstream.delete_stream(FILLER), "cannot delete the filler yet")


def _directories(store: Path, stream: str) -> list[Path]:
    """Return the directories of a stream in a store, relative to it: the account in their path depends on the users."""
    return [path.relative_to(store) for path in store.glob(f"jetstream/*/streams/{stream}")]
