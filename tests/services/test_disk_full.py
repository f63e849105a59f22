"""A full disk under nats-server: reported by log, metric and readiness; all goes on when there is room.

The disk is a limit of the size of files (RLIMIT_FSIZE), which needs no privilege and can be lifted while the server
runs: a write beyond it fails as one on a full disk does.
"""

import asyncio
import resource
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher, Unknown, Write
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.tasks import end
from deviceshare_cli import natsserver
from deviceshare_cli.ports import free_port
from deviceshare_cli.supervisor import Program
from support.manifests import node, pod
from support.natsserver import NatsServer
from support.running import RunningSystem
from support.waiting import until

FULL = 64 * 1024


def limit(process: int, size: int) -> None:
    """Let a process write no file beyond a size."""
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Usage(NamedTuple):
    free: int


class Restarts:
    """A supervisor that counts."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def restart(self, name: str) -> None:
        self.names.append(name)


async def test_writes_that_are_not_stored_are_reported(nats_server: NatsServer, caplog) -> None:
    connection = await connect(nats_server.url, "test")
    await make_streams(connection)
    publisher = Publisher(connection, timeout=0.5)
    await publisher.write(Write("ledger.1.a", b"x" * FULL))
    limit(nats_server.process, FULL)
    for _ in range(2):
        with pytest.raises(Unknown):
            await publisher.write(Write("ledger.1.b", b"x"))
    assert "LEDGER was not acknowledged" in publisher.obstacle
    assert publisher.unacknowledged == 2
    assert [record.levelname for record in caplog.records if "does not store" in record.getMessage()] == ["WARNING"]
    many = [await publisher.send(Write(f"ledger.1.c{number}", b"x")) for number in range(40)]
    assert all(isinstance(answer, Unknown) for answer in await asyncio.gather(*many, return_exceptions=True))
    limit(nats_server.process, resource.RLIM_INFINITY)
    losses = connection.losses
    await nats_server.restart()  # see keep_writable
    await until(lambda: connection.losses != losses and connection.connected)
    await publisher.write(Write("ledger.1.b", b"x"))
    assert publisher.obstacle == ""
    await connection.close()


async def test_a_server_is_restarted_when_its_disk_has_room_again(tmp_path: Path, monkeypatch) -> None:
    monitor = free_port()
    server = NatsServer(tmp_path, options=f'max_payload: 8388608\nhttp: "127.0.0.1:{monitor}"\n')
    server.start()
    connection = await connect(server.url, "test")
    await make_streams(connection)
    publisher = Publisher(connection, timeout=0.5)
    usage = Usage(0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(natsserver, "WRITABLE_INTERVAL", 0.05)
    supervisor: Any = Restarts()
    reports: list[str] = []
    program = Program("nats-server (bus)", (), tmp_path / "log")
    watched = natsserver.NatsServer(server.url, program, f"http://127.0.0.1:{monitor}/healthz", server.store)
    keeping = asyncio.create_task(natsserver.keep_writable(watched, supervisor, reports.append))
    await publisher.write(Write("ledger.1.a", b"x" * FULL))
    await asyncio.sleep(0.3)
    assert not reports
    limit(server.process, FULL)
    with pytest.raises(Unknown):
        await publisher.write(Write("ledger.1.b", b"x"))
    await until(lambda: reports)
    assert "cannot write to its disk" in reports[0]
    assert not supervisor.names
    usage = Usage(1 << 30)
    await until(lambda: supervisor.names)
    assert len(reports) == 1
    await end(keeping)
    await connection.close()
    server.kill()


@pytest.mark.system
async def test_up_goes_on_after_a_full_disk(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path) as system:
        await system.cluster.load([node(number) for number in range(10)])
        await system.cluster.load([pod(number) for number in range(10)])
        await system.bound(system.cluster, 10, within=200)
        limit(system.process("bus"), 1024)
        await system.cluster.load([pod(number) for number in range(10, 40)])
        await system.logged(r"nats-server \(bus\) cannot write to its disk", within=200)
        await system.bound(system.cluster, 40, within=200)
