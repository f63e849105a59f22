"""Faults of the bus: its process, its store, its streams, its disk."""

import asyncio
import random
import shutil
from pathlib import Path

from deviceshare_bus.connection import Connection
from nats.errors import Error as NatsError
from nats.js.api import StorageType, StreamConfig

from deviceshare_cli.chaos.real.checker.judge import Judge
from deviceshare_cli.chaos.real.system import BUS, QUOTA, System

STREAMS = ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN", "EVENT")
SNAPSHOTS = 3
"""Copies of the store that are kept."""
FILLER = "FILLER"
PIECE = 4 << 20
"""Bytes of a message that fills the store."""


class BusFaults:
    """Breaks the bus; faults of the store exclude each other."""

    def __init__(self, system: System, bus: Connection, judge: Judge, chance: random.Random) -> None:
        self._system, self._bus, self._judge, self._chance = system, bus, judge, chance
        self._lock = asyncio.Lock()
        self._snapshots: list[Path] = []
        self._number = 0

    async def kill(self, seconds: float) -> None:
        """Kill the server, and start it again after some time."""
        async with self._lock:
            await self._system.restart_bus(seconds=seconds)

    async def pause(self, seconds: float) -> None:
        """Suspend the server."""
        async with self._lock:
            await self._system.pause(BUS, seconds)

    async def take_snapshot(self) -> None:
        """Copy the store as it is on disk, to roll back to it later."""
        async with self._lock:
            self._number += 1
            snapshot = self._system.directory / f"snapshot-{self._number}"
            pausing = asyncio.create_task(self._system.pause(BUS, 3600.0))
            try:
                await asyncio.sleep(0)
                await asyncio.to_thread(shutil.copytree, self._system.store, snapshot)
            finally:
                pausing.cancel()
                await asyncio.gather(pausing, return_exceptions=True)
            self._snapshots.append(snapshot)
            if len(self._snapshots) > SNAPSHOTS:
                await asyncio.to_thread(shutil.rmtree, self._snapshots.pop(0))

    async def wipe(self, seconds: float) -> None:
        """Lose the whole store."""
        async with self._lock:
            await self._system.restart_bus(lambda store: shutil.rmtree(store, ignore_errors=True), seconds)
            self._judge.damaged()

    async def roll_back(self, seconds: float, stream: str = "") -> str:
        """Lose the latest writes, of all streams or of one; return from which snapshot."""
        async with self._lock:
            if not self._snapshots:
                return "no snapshot"
            snapshot = self._chance.choice(self._snapshots)

            def replace(store: Path) -> None:
                inside = Path("jetstream/$G/streams") / stream if stream else Path()
                source, target = snapshot / inside, store / inside
                if source.is_dir():
                    shutil.rmtree(target, ignore_errors=True)
                    shutil.copytree(source, target)

            await self._system.restart_bus(replace, seconds)
            self._judge.damaged()
            return snapshot.name

    async def delete_stream(self, stream: str) -> None:
        """Delete a stream."""
        async with self._lock:
            await self._bus.repeat(lambda: self._bus.jetstream.delete_stream(stream), "cannot delete a stream yet")
            self._judge.damaged()

    async def empty_stream(self, stream: str) -> None:
        """Delete the messages of a stream."""
        async with self._lock:
            await self._bus.repeat(lambda: self._bus.jetstream.purge_stream(stream), "cannot empty a stream yet")
            self._judge.damaged()

    async def fill_disk(self, seconds: float) -> str:
        """Fill the space of the store for some time; return how much was needed."""
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
                await asyncio.sleep(seconds)
            finally:
                await self._bus.repeat(lambda: jetstream.delete_stream(FILLER), "cannot delete the filler yet")
            return f"{written >> 20} MiB"
