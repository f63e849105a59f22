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


async def test_a_cancellation_that_nats_py_loses_ends_the_connecting(monkeypatch):
    async def losing(self, *_args, error_cb, **_options):
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            await error_cb(OSError("refused"))

    async def closing(_self):
        pass

    monkeypatch.setattr("deviceshare_bus.wire.connection.Client.connect", losing)
    monkeypatch.setattr("deviceshare_bus.wire.connection.Client.close", closing)
    task = asyncio.create_task(connect("nats://127.0.0.1:1", "test"))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()


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
