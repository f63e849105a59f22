"""Placement keeps EXPLAIN within its bound, on a nats-server with users: with no more rights than placement has."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from deviceshare.model import Backoff, Gone, Synced
from deviceshare_bus.messages.codec import decode_events, encode
from deviceshare_bus.messages.subjects import Stream, fact
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.streams import bounded_stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from deviceshare_placement import service
from support.builders import pod, vgpu
from support.bus_users import Users
from support.natsserver import NatsServer

MOST = 5
PODS = [pod(f"pod-{number}", vgpu(100)) for number in range(8)]
ORDER = [PODS[number] for number in (6, 0, 5, 1, 4, 2)]
"""In which pods are deleted."""


@asynccontextmanager
async def connected(users: Users, user: str) -> AsyncIterator[Connection]:
    connection = await users.connect(user)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def placement(users: Users) -> AsyncIterator[None]:
    """Run placement."""
    async with connected(users, "placement") as connection:
        publisher = Publisher(connection, timeout=20.0)
        events = EventLog(publisher, "placement", "1")
        context = Context("placement", "1", argparse.Namespace(), connection, publisher, events)
        running = asyncio.gather(service.main(context), events.run())
        try:
            yield
        finally:
            await end(running)


async def until(value: Callable[[Connection], Awaitable[object]], reader: Connection, expected: object) -> None:
    """Wait until a value on the bus is as expected."""
    async with asyncio.timeout(60):
        while await value(reader) != expected:
            await asyncio.sleep(0.02)


async def explained(reader: Connection) -> set[str]:
    """Return the pods with an explanation."""
    info = await reader.jetstream.stream_info(Stream.EXPLAIN, subjects_filter=">")
    return {subject.removeprefix("explain.") for subject in info.state.subjects or {}}


async def counted(reader: Connection) -> int:
    """Return how many explanations were dropped, as metrics counts them."""
    last = (await reader.jetstream.stream_info(Stream.EVENT)).state.last_seq
    messages = [await reader.jetstream.get_msg(Stream.EVENT, sequence) for sequence in range(1, last + 1)]
    return sum(decode_events(message.data).counters.get("explanations_dropped", 0) for message in messages)


async def test_the_explanations_of_the_pods_that_went_first_are_deleted(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_EXPLANATIONS", MOST)
    monkeypatch.setattr(bounded_stream, "CHECK_FAILED", Backoff(0.05, 1.0))
    users = Users(nats_server)
    await nats_server.restart()
    async with connected(users, "setup") as setup:
        await make_streams(setup)
    async with connected(users, "inventory") as inventory, connected(users, "reader") as reader:
        publisher = Publisher(inventory, timeout=20.0)
        async with placement(users):
            for each in PODS:
                await publisher.write(Write(fact("pod", each.uid), encode(each)))
            await publisher.write(Write("cluster.synced", encode(Synced(revision="1"))))
            living = {each.uid for each in PODS}
            await until(explained, reader, living)  # more than the bound
            for number, each in enumerate(ORDER, 1):
                await publisher.write(Write(fact("pod", each.uid), encode(Gone(revision=str(number + 1)))))
                living.discard(each.uid)
                room = max(0, MOST - len(living))
                gone = [other.uid for other in ORDER[max(0, number - room) : number]]
                await until(explained, reader, living | set(gone))
            await until(counted, reader, 3)
