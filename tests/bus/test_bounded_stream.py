"""A stream is kept within its bound: the oldest messages that expire are deleted, on a real nats-server."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from deviceshare.model import Backoff
from deviceshare_bus.messages.subjects import Stream, explain
from deviceshare_bus.streams import bounded_stream
from deviceshare_bus.streams.bounded_stream import BoundedStream
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.streams.streamstate import stream_state
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from nats.errors import Error as NatsError

TTL = 3600.0
MANY = 1 << 30


class Explanations:
    """Messages of objects that exist and that are gone, and how many were deleted."""

    def __init__(self, connection: Connection, publisher: Publisher) -> None:
        self._connection, self._publisher = connection, publisher
        self.deleted = 0

    def bounded(self, most: int = MANY, most_bytes: int = MANY) -> BoundedStream:
        return BoundedStream(self._connection, Stream.EXPLAIN, most, most_bytes, self.count)

    def count(self) -> None:
        self.deleted += 1

    async def exist(self, *uids: str, size: int = 10) -> None:
        for uid in uids:
            await self._publisher.write(Write(explain(uid), b"x" * size))

    async def go(self, *uids: str, size: int = 10) -> None:
        for uid in uids:
            await self._publisher.write(Write(explain(uid), b"x" * size), ttl=TTL)

    async def uids(self) -> set[str]:
        info = await self._connection.jetstream.stream_info(Stream.EXPLAIN, subjects_filter=">")
        return {subject.removeprefix("explain.") for subject in info.state.subjects or {}}


@pytest.fixture
def explanations(connection: Connection, publisher: Publisher) -> Explanations:
    return Explanations(connection, publisher)


async def test_the_oldest_of_objects_that_are_gone_are_deleted(explanations: Explanations) -> None:
    await explanations.exist("a", "b", "c", "d", "e")
    await explanations.go("d", "b", "a")
    bounded = explanations.bounded(most=5)
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"a", "b", "c", "d", "e"}, 0), "the bound is kept"
    await explanations.exist("f")
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"a", "b", "c", "e", "f"}, 1)
    await explanations.exist("g", "h")
    await explanations.go("c")
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"c", "e", "f", "g", "h"}, 3)


async def test_bytes_are_bounded_as_the_store_counts_them(explanations: Explanations, connection: Connection) -> None:
    await explanations.exist("living", size=50_000)
    await explanations.go(*(f"gone-{number:02}" for number in range(20)), size=10_000)
    await explanations.bounded(most_bytes=100_000).enforce()
    state = await stream_state(connection, Stream.EXPLAIN)
    assert 85_000 < state.size <= 100_000
    kept = await explanations.uids()
    assert kept == {"living", *(f"gone-{number:02}" for number in range(20 - state.messages + 1, 20))}
    assert explanations.deleted == 21 - len(kept)


async def test_objects_that_exist_are_never_deleted(explanations: Explanations) -> None:
    """Also if they alone exceed the bound; when they go, they do so in their order."""
    await explanations.exist("a", "b", "c")
    await explanations.go("gone")
    bounded = explanations.bounded(most=1)
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"a", "b", "c"}, 1)
    await explanations.go("b", "a")
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"c"}, 3)


def interrupt(monkeypatch: pytest.MonkeyPatch, first: Callable[[], Any]) -> None:
    """Have ``first`` run before the first deletion."""
    delete, deletions = bounded_stream.delete_message, []

    async def deleting(connection: Connection, stream: str, sequence: int) -> None:
        deletions.append(sequence)
        if len(deletions) == 1:
            await first()
        await delete(connection, stream, sequence)

    monkeypatch.setattr(bounded_stream, "delete_message", deleting)


async def test_a_message_that_is_replaced_meanwhile_stays(explanations, monkeypatch) -> None:
    await explanations.go("a", "b", "c")
    interrupt(monkeypatch, lambda: explanations.exist("a"))
    bounded = explanations.bounded(most=2)
    with pytest.raises(NatsError):
        await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"a", "b", "c"}, 0)
    await bounded.enforce()
    assert (await explanations.uids(), explanations.deleted) == ({"a", "c"}, 1)


async def test_the_owner_checks_again_after_failures(explanations, monkeypatch, caplog) -> None:
    async def fail() -> None:
        raise TimeoutError

    monkeypatch.setattr(bounded_stream, "CHECK_FAILED", Backoff(0.01, 0.02))
    interrupt(monkeypatch, fail)
    await explanations.go("a", "b", "c")
    asked, owner = [], False

    def owns() -> bool:
        asked.append(owner)
        return owner

    task = asyncio.create_task(explanations.bounded(most=1).run(owns))
    try:
        async with asyncio.timeout(60):
            while len(asked) < 5:
                await asyncio.sleep(0.01)
            assert await explanations.uids() == {"a", "b", "c"}, "another replica is the owner"
            owner = True
            while explanations.deleted < 2:
                await asyncio.sleep(0.01)
    finally:
        await end(task)
    assert await explanations.uids() == {"c"}
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
