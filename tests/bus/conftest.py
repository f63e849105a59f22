"""A bus with its streams, and a publisher that writes to them."""

from collections.abc import AsyncIterator

import pytest
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher
from deviceshare_bus.wire.connection import Connection, connect


@pytest.fixture
async def connection(nats_url: str) -> AsyncIterator[Connection]:
    connection = await connect(nats_url, "test")
    await make_streams(connection)
    yield connection
    await connection.close()


@pytest.fixture
async def publisher(connection: Connection) -> Publisher:
    return Publisher(connection, timeout=20.0)
