"""A nats-server with users: wrong credentials end the service with one line, an unreachable server is waited for."""

import asyncio
import os
import subprocess
import sys

import pytest
from deviceshare.model import ConfigError
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.wire.connection import ConnectionEnded, connect, without_password

USER = 'authorization { user: "bus", password: "secret" }\n'


def require(nats_server, authorization: str) -> None:
    """Change what a nats-server wants; it has to be started again."""
    config = nats_server.directory / "nats-server.conf"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("authorization")]
    config.write_text("\n".join([*lines, authorization]))


@pytest.fixture
async def guarded(nats_server):
    """Gives a nats-server that wants a user."""
    require(nats_server, USER)
    await nats_server.restart()
    return nats_server


def with_user(url: str, user: str) -> str:
    return url.replace("nats://", f"nats://{user}@")


async def test_the_right_credentials_connect(guarded) -> None:
    connection = await connect(with_user(guarded.url, "bus:secret"), "test")
    await make_streams(connection)
    await guarded.restart()
    async with asyncio.timeout(60):
        await connection.wait_connected()
    assert connection.failure is None
    await connection.close()


@pytest.mark.parametrize("user", ["", "bus:wrong", "other:secret"])
async def test_wrong_credentials_are_an_error_that_names_the_option_and_no_password(guarded, user: str) -> None:
    url = with_user(guarded.url, user) if user else guarded.url
    async with asyncio.timeout(60):
        with pytest.raises(ConfigError) as caught:
            await connect(url, "test")
    assert "--bus / DEVICESHARE_BUS" in str(caught.value)
    assert "credentials that nats-server accepts" in str(caught.value)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("service", ["placement", "metrics", "setup", "inventory"])
def test_a_process_ends_with_one_line(guarded, service: str) -> None:
    module = "deviceshare_bus.runtime.setup" if service == "setup" else f"deviceshare_{service}"
    options = ["--cluster", "local:nats://127.0.0.1:9"] if service == "inventory" else []
    done = subprocess.run(
        [sys.executable, "-m", module, "--bus", with_user(guarded.url, "bus:wrong"), *options],
        env={**os.environ, "DEVICESHARE_METRICS_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if "credentials" in line]
    assert len(errors) == 1, done.stderr
    assert "--bus / DEVICESHARE_BUS" in errors[0]
    assert "Traceback" not in done.stderr
    assert "wrong" not in done.stderr


def test_the_local_cluster_ends_with_one_line(guarded) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deviceshare_localcluster", "--cluster", with_user(guarded.url, "bus:wrong")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "command line: --cluster:" in done.stderr
    assert "wrong" not in done.stderr
    assert "Traceback" not in done.stderr


async def test_credentials_that_stop_being_accepted_end_the_readers(connection, nats_server) -> None:
    follower = Follower(connection, Stream.CLUSTER)

    async def read() -> None:
        async for _ in follower:
            pass

    reading = asyncio.create_task(read())
    while not follower.caught_up:
        await asyncio.sleep(0.01)
    require(nats_server, USER)
    await nats_server.restart()
    async with asyncio.timeout(60):
        with pytest.raises(ConfigError, match="--bus / DEVICESHARE_BUS"):
            await reading
        with pytest.raises(ConfigError):
            await connection.wait_connected()


async def test_a_connection_that_the_server_ends_for_good_ends_the_readers(connection) -> None:
    follower = Follower(connection, Stream.CLUSTER)
    reading = asyncio.create_task(anext(aiter(follower)))
    await reading
    await connection.client._process_err("'Maximum Connections Exceeded'")
    async with asyncio.timeout(60):
        while connection.connected:
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionEnded, match="Maximum Connections"):
            await connection.wait_connected()


async def test_an_unreachable_server_is_waited_for(nats_server, caplog) -> None:
    nats_server.kill()
    connecting = asyncio.create_task(connect(nats_server.url, "test"))
    await asyncio.sleep(2.5)  # more tries than an authorization error has
    assert not connecting.done()
    assert len([record for record in caplog.records if "waiting for" in record.message]) == 1
    await asyncio.to_thread(nats_server.start)
    async with asyncio.timeout(60):
        await (await connecting).close()


async def test_a_request_that_waits_for_a_server_can_be_cancelled(nats_server) -> None:
    nats_server.kill()
    connecting = asyncio.create_task(connect(nats_server.url, "test"))
    await asyncio.sleep(0.3)
    connecting.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait({connecting})
    assert connecting.cancelled()


async def test_a_url_that_is_none_is_an_error(nats_url) -> None:
    with pytest.raises(ConfigError, match="--bus / DEVICESHARE_BUS"):
        await connect("nats://127.0.0.1:notaport", "test")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://bus:secret@host:4222", "nats://…@host:4222"),
        ("nats://token@host", "nats://…@host"),
        ("nats://host:4222", "nats://host:4222"),
        ("bus:secret@host", "…@host"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
