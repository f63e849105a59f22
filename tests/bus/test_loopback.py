"""Without TLS a user of the machine who listens on the port of nats-server gets nothing from its clients."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from deviceshare_bus.wire import connection as module
from deviceshare_bus.wire import loopback
from deviceshare_cli.credentials.keys import new_seed
from support.bus_users import Users
from support.natsserver import NatsServer

STRANGER = 65534
IMPOSTOR = """
import json, os, socket, sys
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
if sys.argv[3] == "IPv4":
    listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
else:
    listening = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
offer = {"version": "2.15.1", "max_payload": 8388608, "headers": True, "auth_required": True, "nonce": "n"}
while True:
    client = listening.accept()[0]
    client.sendall(b"INFO " + json.dumps(offer).encode() + b"\\r\\n")
    print("heard", client.recv(1 << 16), flush=True)
"""


@pytest.fixture
async def users(tmp_path: Path) -> AsyncIterator[Users]:
    server = NatsServer(tmp_path)
    found = Users(server)
    server.start()
    yield found
    server.kill()


@pytest.fixture(params=["IPv4", "both"])
def impostor(
    request: pytest.FixtureRequest, users: Users, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Gives a function that starts a server of another user in place of nats-server, on one or both versions of IP."""
    if request.param == "both" and not socket.has_dualstack_ipv6():
        pytest.skip("the machine has no IPv6")
    if os.geteuid() != 0:  # only root can start processes of others
        monkeypatch.setattr(loopback, "users_at", lambda *_: {STRANGER})
    started = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", IMPOSTOR, str(users.server.port), str(STRANGER), request.param]
        started.append(process := subprocess.Popen(command, stdout=subprocess.PIPE))
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_a_client_says_nothing_to_a_server_of_another_user(
    users: Users,
    impostor: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "UNREACHABLE_INTERVAL", 0.2)
    connection = await users.connect("placement")
    users.server.kill()
    process = impostor()
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    heard = [await asyncio.to_thread(process.stdout.readline) for _ in range(3)]
    assert heard == [b"heard b''\n"] * 3
    assert not connection.connected
    assert f"a process of user {STRANGER} listens in place of nats-server" in caplog.text
    process.kill()
    process.wait()
    monkeypatch.undo()
    users.server.start()
    async with asyncio.timeout(60):
        await connection.wait_connected()
    await connection.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_user_at_the_other_end_is_in_the_table_of_the_machine(address: str, tmp_path: Path) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"the machine has no {address}")
    with listening, socket.create_connection(listening.getsockname()[:2]) as client, listening.accept()[0]:
        ends = client.getpeername(), client.getsockname()
        assert loopback.users_at(*ends) == {os.geteuid()}
        assert loopback.stranger(*ends, str(tmp_path)) is None


async def test_only_the_owner_of_the_seed_root_and_oneself_may_be_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = tmp_path / "seed.nk"
    seed.write_text(new_seed())
    owner = seed.stat().st_uid
    found = {7}
    monkeypatch.setattr(loopback, "users_at", lambda *_: found)
    assert loopback.stranger(("127.0.0.1", 1), ("127.0.0.1", 2), str(seed)) == "user 7"
    found = {owner}
    assert loopback.stranger(("127.0.0.1", 1), ("127.0.0.1", 2), str(seed)) is None
    found = {7}
    monkeypatch.setattr(loopback.os, "geteuid", lambda: 7)
    assert loopback.stranger(("127.0.0.1", 1), ("127.0.0.1", 2), str(seed)) is None


def test_other_addresses_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "_TABLES", {})
    assert loopback.users_at(("10.0.0.1", 4222), ("10.0.0.2", 5)) is None
    assert loopback.users_at(("bus.example", 4222), ("10.0.0.2", 5)) is None


def test_an_ipv4_client_of_a_server_on_both_versions_of_ip_finds_its_user() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("the machine has no IPv6")
    listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with (
        listening,
        socket.create_connection(("127.0.0.1", listening.getsockname()[1])) as client,
        listening.accept()[0] as accepted,
    ):
        assert loopback.users_at(client.getpeername(), client.getsockname()) == {os.geteuid()}
        # The other way: this end has the address of IPv4 on a socket of IPv6.
        assert loopback.users_at(accepted.getpeername(), accepted.getsockname()) == {os.geteuid()}


def test_who_is_in_no_table_is_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = ("127.0.0.1", 4222), ("127.0.0.1", 5)
    tables = {version: tmp_path / str(version) for version in (4, 6)}
    monkeypatch.setattr(loopback, "_TABLES", tables)
    assert loopback.stranger(*ends, str(tmp_path)) is None, "not Linux"
    tables[4].write_text("  sl  local_address rem_address\n")
    assert loopback.stranger(*ends, str(tmp_path)) == "an unknown user"
