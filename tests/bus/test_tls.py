"""A nats-server with users and mutual TLS: who connects, and how keys and certificates are replaced."""

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from deviceshare.model import ConfigError
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime.setup import set_up
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire import connection as module
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.credentials import Credentials
from deviceshare_bus.wire.tasks import end
from deviceshare_cli.credentials import files, rotation
from deviceshare_cli.credentials.certificates import end_of
from deviceshare_cli.credentials.keys import new_seed, public_of
from deviceshare_cli.ports import free_port
from support.bus_users import LOOPBACK, Users
from support.natsserver import NatsServer
from support.waiting import until

Start = Callable[..., Users]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Gives a function that starts a server with users and TLS; it ends with the test."""
    servers: list[NatsServer] = []

    def begin(options: str = "", hosts: tuple[str, ...] = LOOPBACK) -> Users:
        servers.append(server := NatsServer(tmp_path, options=options))
        users = Users(server, tls=True, hosts=hosts)
        server.start()
        return users

    yield begin
    for server in servers:
        server.kill()


@pytest.fixture
def users(start: Start) -> Users:
    """Gives the users of a running server."""
    return start()


async def refused(url: str, credentials: Credentials, caplog: pytest.LogCaptureFixture) -> str:
    """Return why a client does not connect, for as long as it tries."""
    connecting = asyncio.create_task(connect(url, "test", credentials=credentials))
    async with asyncio.timeout(60):
        while not (found := [record for record in caplog.records if "waiting for" in record.message]):
            assert not connecting.done(), connecting
            await asyncio.sleep(0.02)
    await end(connecting)
    return str(found[0].message)


async def test_large_messages_pass_over_tls_both_ways(users: Users) -> None:
    setup, inventory = await users.connect("setup"), await users.connect("inventory")
    await make_streams(setup)
    data = os.urandom(4 << 20)
    publisher = Publisher(inventory)
    async with asyncio.timeout(60):
        writes = [await publisher.send(Write(f"cluster.node.n{number}", data)) for number in range(8)]
        await asyncio.gather(*writes)
        found = await Follower(inventory, Stream.CLUSTER).read_to_end()
    assert [message.data == data for message in found] == [True] * 8
    await setup.close()
    await inventory.close()


async def test_a_client_without_a_certificate_is_refused(users: Users, caplog: pytest.LogCaptureFixture) -> None:
    alone = replace(users.of("inventory"), certificate="", key="")
    assert "waiting for tls://" in await refused(users.url, alone, caplog)


async def test_a_server_that_another_authority_has_signed_is_refused(
    users: Users, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(tmp_path / "other", LOOPBACK)
    foreign = replace(users.of("inventory"), ca=str(tmp_path / "other" / "inventory" / "ca.crt"))
    assert "CERTIFICATE_VERIFY_FAILED" in await refused(users.url, foreign, caplog)


async def test_a_server_of_another_name_is_refused(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    users = start(hosts=("bus.example",))
    assert "CERTIFICATE_VERIFY_FAILED" in await refused(users.url, users.of("inventory"), caplog)


async def test_a_server_without_tls_is_refused_before_the_client_says_anything(
    nats_server: NatsServer, users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    """A third party between them could otherwise strip TLS."""
    url = nats_server.url.replace("nats://", "tls://")
    assert "offers no TLS" in await refused(url, users.of("inventory"), caplog)
    with pytest.raises(ConfigError, match="tls:// in all URLs or in none"):
        await connect(f"{url},{nats_server.url}", "test")


async def test_the_certificate_of_a_user_does_not_make_it_a_server(start: Start, tmp_path: Path) -> None:
    route = free_port()
    own = tmp_path / "credentials" / "server"
    section = (
        "server_name: a\nmax_payload: 8MB\n"
        f'cluster {{ name: c, listen: "127.0.0.1:{route}", routes: ["nats://127.0.0.1:9"], tls {{ verify: true, '
        f'cert_file: "{own}/routes.crt", key_file: "{own}/routes.key", ca_file: "{own}/routes-ca.crt" }} }}\n'
    )
    users = start(options=section)
    for name, certificate, accepted in ((files.SERVER, "routes", True), ("metrics", "tls", False)):
        context = ssl.create_default_context(cafile=str(own / "routes-ca.crt"))
        directory = users.directory / name
        context.load_cert_chain(directory / f"{certificate}.crt", directory / f"{certificate}.key")
        said = b""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", route, ssl=context)
            async with asyncio.timeout(60):
                said = await reader.readline()
            writer.close()
        assert said.startswith(b"INFO") == accepted, (name, said)


@pytest.mark.parametrize("kept", [{"certificate": "", "key": ""}, {"ca": "", "seed": ""}])
async def test_files_of_tls_are_refused_with_a_url_that_does_not_require_tls(
    users: Users, kept: dict[str, str]
) -> None:
    """nats-py would use TLS if the server asks for it, which a third party can prevent."""
    url = users.url.replace("tls://", "nats://")
    with pytest.raises(ConfigError, match=r"--bus / DEVICESHARE_BUS.*tls:// in all URLs"):
        await connect(url, "test", credentials=replace(users.of("inventory"), **kept))


async def test_files_may_have_comments_in_any_encoding(users: Users, tmp_path: Path) -> None:
    """As the bundles of authorities of many systems."""
    own = users.of("inventory")
    changed = {}
    for name in ("ca", "certificate", "key"):
        changed[name] = str(tmp_path / name)
        pem = Path(getattr(own, name)).read_bytes()  # noqa: ASYNC240
        (tmp_path / name).write_bytes("# Autorité Főtanúsítvány\n".encode() + b"# \xe9\n" + pem)
    connection = await connect(users.url, "test", credentials=replace(own, **changed))
    assert set(connection.certificate_ends()) == {"client", "server"}
    await connection.close()


async def test_the_metrics_show_until_when_certificates_are_valid(users: Users, nats_url: str) -> None:
    connection = await users.connect("metrics")
    ends = {
        "client": end_of((users.directory / "metrics" / "tls.crt").read_text()).timestamp(),
        "server": end_of((users.directory / "server" / "tls.crt").read_text()).timestamp(),
    }
    assert connection.certificate_ends() == ends
    # The next connection uses the new file; nats-server still shows its old certificate.
    rotation.begin(users.directory, days=30)
    ends["client"] = end_of((users.directory / "metrics" / "tls.crt").read_text()).timestamp()
    assert connection.certificate_ends() == ends
    assert ends["server"] - ends["client"] > 300 * 86400
    await connection.close()
    plain = await connect(nats_url, "test")
    assert plain.certificate_ends() == {}
    await plain.close()


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"seed": "nowhere"}, "--bus-credentials / DEVICESHARE_BUS_CREDENTIALS"),
        ({"seed": "tls.key"}, "--bus-credentials / DEVICESHARE_BUS_CREDENTIALS"),
        ({"ca": "seed.nk"}, "--bus-ca / DEVICESHARE_BUS_CA"),
        ({"certificate": ""}, "--bus-key / DEVICESHARE_BUS_KEY"),
        ({"key": "seed.nk"}, "--bus-certificate / DEVICESHARE_BUS_CERTIFICATE"),
        ({"certificate": "nowhere"}, "--bus-certificate / DEVICESHARE_BUS_CERTIFICATE"),
    ],
)
async def test_a_file_that_cannot_be_used_is_an_error_that_names_its_option(
    users: Users, change: dict[str, str], option: str
) -> None:
    own = users.of("inventory")
    directory, seed = Path(own.seed).parent, Path(own.seed).read_text().strip()  # noqa: ASYNC240
    changed = replace(own, **{name: str(directory / file) if file else "" for name, file in change.items()})
    with pytest.raises(ConfigError, match=option) as caught:
        await connect(users.url, "test", credentials=changed)
    assert seed not in str(caught.value)


async def reload(server: NatsServer) -> None:
    """Let a server read its configuration, with what it includes, and its certificates again."""
    log = server.directory / "nats-server.log"
    before = log.read_text().count("Reloaded server configuration")
    os.kill(server.process, signal.SIGHUP)
    await until(lambda: log.read_text().count("Reloaded server configuration") > before)


async def losses(connections: list[Connection], count: int) -> None:
    await until(lambda: not any(each.losses < count or not each.connected for each in connections))


async def test_keys_and_certificates_are_replaced_while_clients_stay(users: Users) -> None:
    server = users.server
    keeping = asyncio.create_task(set_up(users.url, credentials=users.of("setup"), watch=True))
    connections = [await users.connect(user) for user in ("inventory", "placement", "metrics")]
    old = {user: users.of(user).public_key() for user in ("inventory", "placement")}
    publisher, written = Publisher(connections[0]), 0
    rotation.begin(users.directory, LOOPBACK)
    await reload(server)
    assert [each.losses for each in connections] == [0, 0, 0], "both keys are valid: no client is disconnected"
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)  # all connect again: with the new key, to the old certificate
    await losses(connections, 1)
    rotation.finish(users.directory)
    await reload(server)
    await server.restart()
    await losses(connections, 2)
    async with asyncio.timeout(60):
        while not written:
            try:
                written = await publisher.write(Write("cluster.node.n", b"?"))
            except Exception:
                await asyncio.sleep(0.1)
    assert written == 1
    assert all(each.failure is None for each in connections)
    assert {user: users.of(user).public_key() for user in old} != old
    text = (users.directory / files.SERVER / files.AUTHORIZATION).read_text()
    assert not any(key in text for key in old.values())
    assert not (users.directory / rotation.ROTATION).exists()
    await end(keeping)
    for each in connections:
        await each.close()


async def test_a_client_whose_key_is_removed_connects_again_with_the_one_of_its_file(users: Users) -> None:
    server = users.server
    connection = await users.connect("metrics")
    rotation.begin(users.directory, LOOPBACK)
    rotation.finish(users.directory)
    await reload(server)
    await losses([connection], 1)
    assert connection.failure is None
    await connection.close()


async def test_a_client_waits_for_its_new_key_and_then_ends(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have a new key before the file does: kubelet takes a minute."""
    connection = await users.connect("metrics")
    seed = Path(users.of("metrics").seed)
    files.write_authorization(users.directory, {"metrics": (public_of(new := new_seed()),)})
    await reload(users.server)
    await asyncio.sleep(2)  # longer than the tries after which a client without a file ends
    assert connection.failure is None
    files.put(seed, new)
    await losses([connection], 1)
    monkeypatch.setattr(module, "DENIED_SECONDS", 0.5)
    files.write_authorization(users.directory, {"metrics": (public_of(new_seed()),)})
    await reload(users.server)
    await until(lambda: connection.failure is not None)
    with pytest.raises(ConfigError, match="--bus-credentials / DEVICESHARE_BUS_CREDENTIALS"):
        await connection.wait_connected()
