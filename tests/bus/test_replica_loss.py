"""One of three servers loses the end of its files, or a bit of them flips: by seed.

A reader either knows what the stream's leader holds, with sequences, or starts anew; nothing is written twice under one
expected sequence. ``DEVICESHARE_REPLICA_LOSSES`` raises the number of cases, ``DEVICESHARE_POWER_LOSS_SEED`` sets the
first seed. All cases run on one cluster, each on what the last one left.
"""

import asyncio
import contextlib
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Conflict, Publisher, PublishError, Write
from deviceshare_bus.streams.streamstate import stored_message
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.tasks import end
from nats.errors import Error as NatsError
from support.nats_cluster import NatsCluster
from support.power_loss import damage

FIRST = int(os.environ.get("DEVICESHARE_POWER_LOSS_SEED", "1"))
CASES = range(FIRST, FIRST + int(os.environ.get("DEVICESHARE_REPLICA_LOSSES", "2")))
SUBJECTS = [f"ledger.1.n{number}" for number in range(12)]
FILES = ("LEDGER/msgs/*.blk", "_js_/S-R3F-*/msgs/*.blk")
"""The messages of the stream, and of the log that its servers agree on."""
Known = dict[str, tuple[int, bytes]]


class Reader:
    """What one reader knows: sequence and data of the last message of each subject."""

    def __init__(self, connection: Connection) -> None:
        self.follower = Follower(connection, Stream.LEDGER)
        self.known: Known = {}
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for batch in self.follower:
            self.known.update({message.subject: (message.sequence, message.data) for message in batch.messages})

    @property
    def wiped(self) -> bool:
        """Whether the reader has to start anew."""
        if not self.task.done():
            return False
        assert isinstance(self.task.exception(), BusWiped)
        return True

    async def end(self) -> None:
        await end(self.task)


async def held(connection: Connection) -> Known:
    """Return what the leader holds."""
    found: Known = {}
    for subject in SUBJECTS:
        message = await connection.repeat(
            lambda subject=subject: stored_message(connection, Stream.LEDGER, subject=subject), "no answer"
        )
        if message is not None:
            found[subject] = (message[0].sequence, message[1])
    return found


async def write_some(publisher: Publisher, reader: Reader, rng: random.Random, name: str) -> None:
    """Write as the services do: each write expects the sequence that the reader knows."""
    for number in range(rng.randrange(5, 40)):
        subject = rng.choice(SUBJECTS)
        data = f"{name} {number}".encode() * rng.randrange(1, 20)
        async with asyncio.timeout(60):
            while not reader.wiped:
                expected = reader.known.get(subject, (0, b""))[0]
                try:
                    sequence = await publisher.write(Write(subject, data, expected))
                except Conflict:
                    await asyncio.sleep(0.05)
                except PublishError:
                    await asyncio.sleep(0.2)
                else:
                    reader.known[subject] = max(reader.known.get(subject, (0, b"")), (sequence, data))
                    break


async def agree(connection: Connection, reader: Reader, what: str) -> bool:
    """Wait until the reader knows what the leader holds; return False if it starts anew."""
    differences: object = None
    for _ in range(60):
        if reader.wiped:
            return False
        present = await held(connection)
        if not reader.follower.obstacle and present == reader.known:
            return True
        differences = {
            subject: (present.get(subject), reader.known.get(subject))
            for subject in SUBJECTS
            if present.get(subject) != reader.known.get(subject)
        }
        await asyncio.sleep(0.25)
    raise AssertionError(f"{what}: {reader.follower.obstacle} {differences}")


@pytest.mark.timeout(400 + 60 * len(CASES))
async def test_no_stale_message_survives_a_damaged_replica(tmp_path: Path) -> None:
    cluster = NatsCluster(tmp_path)
    await asyncio.to_thread(cluster.start)
    connection = await connect(cluster.url, "reader")
    await connection.repeat(lambda: make_streams(connection, replicas=3), "no cluster yet")
    publisher = Publisher(connection, timeout=2.0)
    reader = Reader(connection)
    results: Counter[str] = Counter()
    try:
        for seed in CASES:
            rng = random.Random(seed)
            leader = await cluster.leader(connection, Stream.LEDGER)
            await write_some(publisher, reader, rng, f"{seed} before")
            name = rng.choice(list(cluster.servers))
            cluster.servers[name].kill()
            what = damage(cluster.servers[name].store, rng, rng.choice(FILES))
            if rng.random() < 0.7:
                await write_some(publisher, reader, rng, f"{seed} meanwhile")
            await asyncio.to_thread(cluster.servers[name].start)
            await cluster.leader(connection, Stream.LEDGER)
            if rng.random() < 0.5:
                await cluster.lead(connection, Stream.LEDGER, name)
            case = f"seed {seed}: {what} of the {'leader' if name == leader else 'follower'}"
            known = await agree(connection, reader, case)
            await write_some(publisher, reader, rng, f"{seed} after")
            known = known and await agree(connection, reader, case)
            results["read on" if known else "started anew"] += 1
            if not known:
                await reader.end()
                reader = Reader(connection)
    finally:
        sys.stderr.write(f"damaged replicas: {dict(results)}\n")
        await reader.end()
        with contextlib.suppress(NatsError):
            await connection.close()
        cluster.kill()
