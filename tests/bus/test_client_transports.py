"""Publishing, listening and requests over a web socket, and over TLS."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import nats.errors
import pytest
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.framing import Received
from deviceshare_cli.ports import free_port
from support import framings
from support.natsserver import NatsServer
from support.waiting import until


@pytest.fixture(params=framings.ALL)
async def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    framings.install(name, monkeypatch)
    return name


async def until_heard(heard: list[Received], count: int) -> None:
    await until(lambda: len(heard) >= count)


@pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float':DeprecationWarning")  # nats-py's
async def test_a_web_socket_is_read_by_nats_py(tmp_path: Path) -> None:
    port = free_port()
    options = f'max_payload: 8388608\nwebsocket {{ listen: "127.0.0.1:{port}", no_tls: true }}\n'
    server = NatsServer(tmp_path, options=options)
    server.start()
    try:
        async with asyncio.timeout(60):
            connection = await connect(f"ws://127.0.0.1:{port}", "test")
        heard: list[Received] = []
        connection.listen("a", heard.append)
        for number in range(100):
            connection.client.send("a", b"%d" % number)
        await until_heard(heard, 100)
        assert [int(message.data) for message in heard] == list(range(100))
        with pytest.raises(nats.errors.NoRespondersError):
            await connection.requests.request("no.responders", b"", 5.0)
        await connection.close()
    finally:
        server.kill()


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1 and of its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="allowed: openssl is not installed")
async def test_a_connection_with_tls_is_read_the_same(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = NatsServer(
        tmp_path, options=f'max_payload: 8388608\ntls {{ cert_file: "{certificate}", key_file: "{key}" }}\n'
    )
    server.start()
    try:
        async with asyncio.timeout(60):
            connection = await connect(server.url.replace("nats://", "tls://"), "test")
        heard: list[Received] = []
        connection.listen("a", heard.append)
        for size in (0, 1, 100_000, 3_000_000):
            connection.client.send("a", bytes(size))
        await until_heard(heard, 4)
        assert [len(message.data) for message in heard] == [0, 1, 100_000, 3_000_000]
        back = asyncio.Event()
        connection.on_reconnect(back.set)
        await server.restart()
        async with asyncio.timeout(60):
            await back.wait()
        connection.client.send("a")
        await until_heard(heard, 5)
        await connection.close()
    finally:
        server.kill()
