"""A nats-server whose store falls back to an earlier state, and is written again before the readers return."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deviceshare_bus.wire.connection import Connection, connect
from support.natsserver import NatsServer
from support.waiting import until


class PowerLoss:
    """Snapshots of a server's store, and the return to one of them."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self._snapshot = server.directory / "snapshot"

    async def snapshot(self, connection: Connection) -> None:
        """Keep the store as it is on disk. The server restarts, and the connection is restored."""
        losses = connection.losses
        self.server.kill()
        shutil.rmtree(self._snapshot, ignore_errors=True)
        shutil.copytree(self.server.store, self._snapshot)
        await asyncio.to_thread(self.server.start)
        await until(lambda: connection.losses != losses and connection.connected)

    def fall_back(self) -> None:
        """Kill the server, and give it the store of the snapshot. It stays down."""
        self.server.kill()
        shutil.rmtree(self.server.store)
        shutil.copytree(self._snapshot, self.server.store)

    @asynccontextmanager
    async def aside(self, tmp_path: Path, **jetstream: Any) -> AsyncIterator[Connection]:
        """Run the store on another port, where no reader of the test sees it; gives a connection to it."""
        directory = tmp_path / "aside"
        directory.mkdir(exist_ok=True)
        other = NatsServer(directory, store_dir=f'"{self.server.store}"', **jetstream)
        await asyncio.to_thread(other.start)
        connection = await connect(other.url, "aside")
        try:
            yield connection
        finally:
            await connection.close()
            other.kill()


def damage(store: Path, rng: random.Random, files: str = "LEDGER/msgs/*.blk") -> str:
    """Truncate one of the files or flip one of its bits, or neither; return what was done."""
    what = rng.choice(["nothing", "truncated", "bit flip"])
    blocks = sorted(path for path in store.rglob(files) if path.stat().st_size)
    if what == "nothing" or not blocks:
        return "nothing"
    path = rng.choice(blocks)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    if what == "truncated":
        del data[at:]
    else:
        data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    if rng.random() < 0.5:  # else the server trusts its index of the messages
        for index in path.parent.glob("index.db"):
            index.unlink()
    return what
