"""Power losses by seed: a reader either knows what the stream holds, or starts anew.

The store falls back, its files are truncated or get bit flips, and other writers go on beyond the reader's position.
``DEVICESHARE_POWER_LOSSES`` raises the number of cases, ``DEVICESHARE_POWER_LOSS_SEED`` sets the first seed.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.tasks import end
from nats.js.errors import NotFoundError
from support.natsserver import NatsServer
from support.power_loss import PowerLoss, damage
from support.waiting import until

FIRST = int(os.environ.get("DEVICESHARE_POWER_LOSS_SEED", "1"))
CASES = range(FIRST, FIRST + int(os.environ.get("DEVICESHARE_POWER_LOSSES", "4")))
SUBJECTS = 12


async def write_some(connection: Connection, rng: random.Random, name: str) -> None:
    publisher = Publisher(connection)
    for number in range(rng.randrange(40)):
        data = f"{name} {number}".encode() * rng.randrange(1, 20)
        await publisher.write(Write(f"ledger.1.n{rng.randrange(SUBJECTS)}", data))


async def contents(connection: Connection) -> dict[str, bytes]:
    messages = await Follower(connection, Stream.LEDGER).read_to_end()
    return {message.subject: message.data for message in messages}


@pytest.mark.parametrize("seed", CASES)
async def test_no_stale_message_survives(connection, nats_server: NatsServer, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    await write_some(connection, rng, "kept")
    loss = PowerLoss(nats_server)
    await loss.snapshot(connection)
    await write_some(connection, rng, "lost")
    known: dict[str, bytes] = {}
    follower = Follower(connection, Stream.LEDGER)

    async def read() -> None:
        async for batch in follower:
            known.update({message.subject: message.data for message in batch.messages})

    reading = asyncio.create_task(read())
    last = (await connection.jetstream.stream_info(Stream.LEDGER)).state.last_seq
    await until(lambda: follower.position >= last and follower.caught_up)
    if rng.random() < 0.7:
        loss.fall_back()
    else:
        nats_server.kill()
    what = damage(nats_server.store, rng)
    gone = False
    async with loss.aside(tmp_path) as other:
        try:
            await other.jetstream.stream_info(Stream.LEDGER)
            await write_some(other, rng, "new")
        except NotFoundError:
            gone = True
    await asyncio.to_thread(nats_server.start)
    await connection.wait_connected()
    # Longer than a reconnect, a comparison and a check take.
    await asyncio.wait({reading}, timeout=4.0)
    if reading.done():
        assert isinstance(reading.exception(), BusWiped)
    else:
        reader = await connect(nats_server.url, "fresh")
        assert not gone
        try:
            async with asyncio.timeout(15):
                assert known == await contents(reader), f"seed {seed}: {what}"
        except TimeoutError:
            # nats-server serves the damaged message, malformed, which ends each connection: nothing can be read.
            assert what == "bit flip"
            assert not connection.may_write("ledger.1.n0")
        await reader.close()
    await end(reading)
