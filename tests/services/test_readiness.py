"""``/readyz`` and ``/healthz`` of a service on a real bus: they tell whether it can do its work, and else why not."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import NoRoom, Publisher, Write
from deviceshare_bus.wire.connection import connect
from deviceshare_cli.ports import free_port
from support.natsserver import NatsServer


class Service:
    """A service as a process, and the port that ``option`` sets."""

    def __init__(self, url: str, directory: Path, name: str = "placement", option: str = "--health-port") -> None:
        self._port = free_port()
        ports = {"--health-port": "0", option: str(self._port)}
        options = ("--bus", url, *(word for pair in ports.items() for word in pair), "--bus-hold", "1")
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"deviceshare_{name}", *options], stdout=log, stderr=log, env=os.environ
            )

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    async def ask(self, path: str) -> tuple[int, str]:
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self._port}/{path}") as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, "no answer"

    async def until(self, path: str, status: int, *words: str, within: float) -> float:
        """Wait for a status with some words, and return after how many seconds it came."""
        began = time.monotonic()
        found: Any = None
        while time.monotonic() < began + within:
            found = await self.ask(path)
            if found[0] == status and all(word in found[1] for word in words):
                return time.monotonic() - began
            await asyncio.sleep(0.05)
        raise AssertionError(f"/{path} answers {found} after {within} s\n{self.log.read_text()}")


@pytest.fixture
def service(nats_server: NatsServer, tmp_path: Path) -> Iterator[Service]:
    service = Service(nats_server.url, tmp_path)
    yield service
    service.end()


@pytest.mark.parametrize("stream", [Stream.LEDGER, Stream.EVENT])
async def test_a_lost_stream_is_reported_and_made_again(nats_server, service, stream) -> None:
    """LEDGER is followed by placement, EVENT is not."""
    connection = await connect(nats_server.url, "test")
    await make_streams(connection)
    await service.until("readyz", 200, within=100)
    info = await connection.jetstream.stream_info(stream)
    await connection.jetstream.delete_stream(stream)
    await service.until("readyz", 503, within=100)
    await service.until("readyz", 200, within=100)
    again = await connection.jetstream.stream_info(stream)
    assert again.config.metadata["epoch"] != info.config.metadata["epoch"]
    await connection.close()


async def test_a_service_makes_the_streams_if_the_set_up_step_does_not(nats_server, service) -> None:
    await service.until("readyz", 503, "waiting for", within=100)
    await service.until("readyz", 200, within=100)


async def test_it_is_not_healthy_while_the_bus_is_down(nats_server, service) -> None:
    connection = await connect(nats_server.url, "test")
    await make_streams(connection)
    await connection.close()
    await service.until("healthz", 200, within=100)
    nats_server.kill()
    await service.until("healthz", 503, "not connected", within=100)
    await service.until("readyz", 503, "not connected", within=100)
    nats_server.start()
    await service.until("healthz", 200, within=100)
    await service.until("readyz", 200, within=100)


@pytest.mark.parametrize("suspended", [False, True])
async def test_the_port_of_the_page_is_not_ready_without_the_bus(nats_server, tmp_path, suspended) -> None:
    """The metrics service, which has the health checks on its main port as well."""
    connection = await connect(nats_server.url, "test")
    await make_streams(connection)
    await connection.close()
    metrics = Service(nats_server.url, tmp_path, "metrics", "--metrics-port")
    try:
        await metrics.until("readyz", 200, within=100)
        if suspended:
            nats_server.freeze()
            await metrics.until("readyz", 503, "bus", within=100)
            nats_server.thaw()
        else:
            nats_server.kill()
            await metrics.until("readyz", 503, "not connected to the bus", within=100)
            nats_server.start()
        await metrics.until("readyz", 200, within=100)
    finally:
        nats_server.thaw()
        metrics.end()


async def test_a_server_without_room_is_reported_until_it_has_room_again(tmp_path, caplog) -> None:
    server = NatsServer(tmp_path, max_file_store="260MB", sync_interval="10s")
    server.start()
    connection = await connect(server.url, "test")
    await make_streams(connection)
    publisher = Publisher(connection)
    with pytest.raises(NoRoom, match="insufficient"):  # noqa: PT012 - the store is filled until it is full
        for number in range(80):
            await publisher.write(Write(f"explain.{number}", b"x" * 4_000_000))
    assert "insufficient" in publisher.obstacle
    assert publisher.no_room == 1
    assert [record.levelname for record in caplog.records if "no room" in record.getMessage()] == ["ERROR"]
    await connection.jetstream.purge_stream(Stream.EXPLAIN)
    await publisher.write(Write("explain.again", b"x"))
    assert publisher.obstacle == ""
    await connection.close()
    server.kill()
