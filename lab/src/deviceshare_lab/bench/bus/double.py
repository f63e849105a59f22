"""One process of the floor: publishes and reads with bare nats-py.

Reads a :class:`~deviceshare_lab.bench.bus.floor.Double` from standard input, prints ``ready``, waits for ``go``, and
prints ``done`` at the end.
"""

import asyncio
import sys
from collections.abc import Awaitable, Iterable

import msgspec
import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from deviceshare_lab.bench.bus.floor import Double, Gets, Publish, Read

IN_FLIGHT = 1000
PENDING = 4_000_000
PENDING_BYTES = 1 << 30


async def run() -> None:
    """Run the process."""
    work = msgspec.json.decode(sys.stdin.readline().encode(), type=Double)
    urls = {one.url for one in work.publish} | {one.url for one in work.read} | {one.url for one in work.gets}
    clients = {url: await nats.connect(url, pending_size=64 << 20) for url in urls}
    reads = [await _read(clients[one.url], one) for one in work.read]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    tasks: list[Awaitable[None]] = [_publish(clients[one.url], one) for one in work.publish if one.messages]
    tasks += [_get(clients[one.url], one) for one in work.gets]
    await asyncio.gather(*tasks, *(read.wait() for read in reads))
    print("done", flush=True)
    for client in clients.values():
        await client.close()


async def _read(client: Client, read: Read) -> asyncio.Event:
    """Read a stream; the event is set when the last message has arrived."""
    done = asyncio.Event()

    async def received(message: Msg) -> None:
        if message.data or not message.headers:
            if int(message.reply.split(".")[5]) >= read.messages:
                done.set()
        elif message.reply:  # flow control
            await message.respond(b"")

    inbox = client.new_inbox()
    await client.subscribe(inbox, cb=received, pending_msgs_limit=PENDING, pending_bytes_limit=PENDING_BYTES)
    await client.jetstream().add_consumer(
        read.stream,
        ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            flow_control=True,
            idle_heartbeat=5.0,
            num_replicas=1,
            mem_storage=True,
        ),
    )
    return done


async def _publish(client: Client, publish: Publish) -> None:
    subjects = (f"{publish.prefix}.{number % publish.subjects}" for number in range(publish.messages))
    await _request_all(client, subjects, b"x" * publish.size, publish.messages)


async def _get(client: Client, gets: Gets) -> None:
    """Get the last message of many subjects, whether or not a message exists."""
    subjects = (f"$JS.API.DIRECT.GET.{gets.stream}.{gets.prefix}.{number}" for number in range(gets.count))
    await _request_all(client, subjects, b"", gets.count)


async def _request_all(client: Client, subjects: Iterable[str], data: bytes, count: int) -> None:
    """Send requests with up to IN_FLIGHT outstanding answers, and wait for all answers."""
    room = asyncio.Semaphore(IN_FLIGHT)
    left = count
    done = asyncio.Event()

    async def answered(_: Msg) -> None:
        nonlocal left
        left -= 1
        room.release()
        if not left:
            done.set()

    inbox = client.new_inbox()
    await client.subscribe(inbox, cb=answered, pending_msgs_limit=PENDING, pending_bytes_limit=PENDING_BYTES)
    for subject in subjects:
        await room.acquire()
        await client.publish(subject, data, reply=inbox)
    await done.wait()


if __name__ == "__main__":
    uvloop.run(run())
