"""nats-server on the store of a bus with other accounts: why docs/install.md has the store deleted."""

import asyncio
import shutil
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest
from deviceshare_bus.wire.connection import connect
from deviceshare_cli.ports import free_port
from support.bus_users import Users
from support.natsserver import NatsServer

INSTALL = Path(__file__).parents[2] / "docs" / "install.md"


def health(port: int) -> tuple[int, str]:
    """Return what the liveness probe of the bus gets."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("to_users", [True, False])
async def test_the_health_check_fails_until_the_store_is_deleted(tmp_path: Path, to_users: bool) -> None:
    port = free_port()
    server = NatsServer(tmp_path, options=f'max_payload: 8388608\nhttp: "127.0.0.1:{port}"\n')
    configuration = tmp_path / "nats-server.conf"
    anonymous = configuration.read_text()
    users = Users(server)
    secured = configuration.read_text()
    first, second = (anonymous, secured) if to_users else (secured, anonymous)
    configuration.write_text(first)
    server.start()
    try:
        own = {} if to_users else {"credentials": users.of("setup")}
        connection = await connect(server.url, "test", **own)
        await connection.jetstream.add_stream(name="LEDGER", subjects=["ledger.>"])
        await connection.close()
        assert await asyncio.to_thread(health, port) == (200, '{"status":"ok"}')
        server.kill()
        configuration.write_text(second)
        server.start()
        status, text = await asyncio.to_thread(health, port)
        assert status == 503, text
        server.kill()
        shutil.rmtree(server.store)
        server.start()
        assert (await asyncio.to_thread(health, port))[0] == 200
    finally:
        server.kill()


@pytest.mark.parametrize("section", ["Upgrade", "Roll back"])
def test_the_steps_delete_the_store(section: str) -> None:
    text = INSTALL.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert "delete pvc -l app.kubernetes.io/name=bus" in text or "#users-of-the-bus-on-or-off" in text
