"""Waiting for a connection."""

import asyncio

from deviceshare_bus.connection import connect
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
        await asyncio.wait_for(waiting, 5)
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
        await asyncio.wait_for(waiting, 10)
    finally:
        await connection.close()
