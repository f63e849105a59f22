"""Waiting for a connection."""

import asyncio
import logging
from contextlib import suppress

import nats.errors
import pytest
from deviceshare.model import ConfigError
from deviceshare_bus.wire import client as client_module
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.tasks import end
from nats.aio.client import Client
from support.waiting import until


async def test_who_waits_while_a_loss_is_not_announced_yet_leaves_others_their_turn(nats_url):
    connection = await connect(nats_url, "test")
    client = connection.client
    try:
        client._status = Client.RECONNECTING  # what the client knows before it calls anybody
        waiting = asyncio.create_task(connection.wait_connected())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        client._status = Client.CONNECTED
        await asyncio.wait_for(waiting, 60)
    finally:
        await connection.close()


async def test_who_waits_goes_on_when_the_server_is_back(nats_server):
    connection = await connect(nats_server.url, "test")
    try:
        nats_server.kill()
        while connection.connected:
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(connection.wait_connected())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await asyncio.to_thread(nats_server.start)
        await asyncio.wait_for(waiting, 60)
    finally:
        await connection.close()


async def test_a_write_to_a_reset_connection_is_tried_again(nats_server, monkeypatch):
    resets = [b"CONNECT"]
    write = asyncio.StreamWriter.write

    def fail_once(self, data):
        """Do as uvloop does when the server has reset the connection."""
        if resets and bytes(data).startswith(resets[0]):
            resets.pop(0)
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        write(self, data)

    monkeypatch.setattr(asyncio.StreamWriter, "write", fail_once)
    connection = await connect(nats_server.url, "test")
    try:
        assert resets == []
        resets += [b"CONNECT", b"SUB"]
        nats_server.kill()
        while connection.connected:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(nats_server.start)
        await asyncio.wait_for(connection.wait_connected(), 60)
        assert resets == []
    finally:
        await connection.close()


async def test_a_dns_server_that_does_not_answer_is_named_and_nothing_is_connected(monkeypatch):
    async def silent(*_args, **_options):
        await asyncio.get_running_loop().create_future()

    async def unexpected(*_args, **_options):
        pytest.fail("uvloop would report this connection's error after its time")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", silent)
    monkeypatch.setattr(asyncio, "open_connection", unexpected)
    client = client_module.Client()
    reasons: asyncio.Queue[Exception] = asyncio.Queue()
    connecting = asyncio.create_task(
        client.connect("nats://bus.example:4222", connect_timeout=0.01, error_cb=reasons.put)
    )
    try:
        assert str(await asyncio.wait_for(reasons.get(), 60)) == "DNS does not resolve bus.example in time"
    finally:
        await end(connecting)


class Refusal:
    """A server that refuses a connection, also in the turn of the loop in which the connecting is cancelled."""

    tries = 0

    async def __call__(self, *_address):
        self.tries += 1
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise ConnectionRefusedError


async def test_a_cancellation_that_nats_py_loses_ends_the_connecting(monkeypatch):
    refusal = Refusal()
    monkeypatch.setattr(client_module.Client, "_resolve", refusal)
    connecting = asyncio.create_task(connect("nats://127.0.0.1:1", "test"))
    await until(lambda: refusal.tries)
    connecting.cancel()
    await asyncio.wait({connecting}, timeout=60)
    assert connecting.cancelled()
    assert refusal.tries == 1


async def test_a_cancellation_that_nats_py_loses_ends_the_reconnecting(nats_server, monkeypatch):
    connection = await connect(nats_server.url, "test")
    refusal = Refusal()
    monkeypatch.setattr(connection.client, "_resolve", refusal)
    nats_server.kill()
    await until(lambda: refusal.tries)
    (reconnecting,) = (task for task in asyncio.all_tasks() if "_attempt_reconnect" in repr(task.get_coro()))
    await connection.close()
    await asyncio.wait({reconnecting}, timeout=60)
    assert reconnecting.done()
    assert refusal.tries == 1


MIB = 1 << 20


def fill(connection: Connection) -> None:
    """Send until no more is taken."""
    for _ in range(1000):
        connection.client.send("a", bytes(MIB))


async def test_what_waits_in_the_transport_counts_as_waiting(nats_server, monkeypatch):
    monkeypatch.setattr(client_module, "PENDING_BYTES", 32 * MIB)
    connection = await connect(nats_server.url, "test")
    nats_server.freeze()
    try:
        with pytest.raises(nats.errors.OutboundBufferLimitError):
            fill(connection)
        await asyncio.sleep(0.1)  # it is in the transport now, but for what the operating system has taken
        with pytest.raises(nats.errors.OutboundBufferLimitError):
            fill(connection)
        waiting = connection.client._pending_data_size + connection.client._transport.stream.get_write_buffer_size()
        assert 32 * MIB < waiting < 34 * MIB
    finally:
        nats_server.thaw()
        await connection.close()


async def test_closing_does_not_wait_for_a_server_that_does_not_read(nats_server, caplog):
    connection = await connect(nats_server.url, "test")
    nats_server.freeze()
    try:
        for _ in range(32):
            connection.client.send("a", bytes(MIB))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(60):
            await connection.close()
        assert connection.client.is_closed
        assert connection.client._transport.stream.is_closing()
    finally:
        nats_server.thaw()
    assert [each.levelno for each in caplog.records if "without sending" in each.getMessage()] == [logging.WARNING]


def test_a_nats_py_without_the_private_names_is_refused(monkeypatch):
    monkeypatch.delattr(Client, "_process_pong")
    with pytest.raises(ConfigError, match=r"nats-py.*2\.16, which has _process_pong"):
        Connection("nats://127.0.0.1:1")
