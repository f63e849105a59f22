"""A nats-server with users, shared by the tests of a module."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from support.bus_users import Users
from support.natsserver import NatsServer


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    directory: Path = tmp_path_factory.mktemp("nats")
    server = NatsServer(directory)
    found = Users(server)
    server.start()
    asyncio.run(_set_up(found))
    yield found
    server.kill()


async def _set_up(users: Users) -> None:
    connection = await users.connect("setup")
    await make_streams(connection)
    await connection.close()


@pytest.fixture
async def sequences(users: Users) -> AsyncIterator[dict[str, int]]:
    """Gives the last sequences of the streams, which must not change."""
    connection = await users.connect("reader")

    async def last() -> dict[str, int]:
        return {stream: (await connection.jetstream.stream_info(stream)).state.last_seq for stream in Stream}

    before = await last()
    yield before
    assert await last() == before
    await connection.close()
