"""The floor: the messages of a run, as many and as large, through bare nats-py by processes that decide nothing.

Every process of the run has its double: it publishes what that one wrote, with as many answers in flight as the server
takes, and reads the streams that that one read; all at once, since nobody waits for what somebody else says. The
doubles decode nothing and compare nothing. What stays is the price of moving the messages.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from deviceshare_bus.connection import connect
from deviceshare_bus.setup import make_streams
from deviceshare_bus.subjects import Stream
from deviceshare_bus.tasks import end
from deviceshare_cluster.local import LocalCluster
from deviceshare_cluster.local.kinds import STREAM

from deviceshare_cli import natsserver
from deviceshare_cli.bench.bus.measure import Run
from deviceshare_cli.bench.bus.traffic import Traffic
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.supervisor import Supervisor

WRITERS = {
    Stream.CLUSTER: "inventory",
    Stream.LEDGER: "placement",
    Stream.EXPLAIN: "placement",
    Stream.OUTCOME: "binder",
}
SUBJECT = {
    Stream.CLUSTER: "cluster.pod",
    Stream.LEDGER: "ledger.0",
    Stream.EXPLAIN: "explain",
    Stream.OUTCOME: "outcome.0",
    Stream.EVENT: "event",
    STREAM: "object.Pod.bench",
}
STORED = 30
"""Bytes that the server adds to a message's subject, headers and data in a stream."""


class Publish(msgspec.Struct, frozen=True):
    """Messages to publish: how many, how large, to how many subjects ``<prefix>.<number>``."""

    url: str
    prefix: str
    messages: int
    size: int
    subjects: int


class Read(msgspec.Struct, frozen=True):
    """A stream to read, up to its message ``messages``."""

    url: str
    stream: str
    messages: int


class Gets(msgspec.Struct, frozen=True):
    """Direct gets of the last message under ``<prefix>.<number>``: the read before a binding."""

    url: str
    stream: str
    prefix: str
    count: int


class Double(msgspec.Struct, frozen=True):
    """What one process does."""

    name: str
    publish: tuple[Publish, ...]
    read: tuple[Read, ...]
    gets: tuple[Gets, ...] = ()


async def floor(run: Run, pods: int, timeout: float, notices: Notices) -> float:
    """Return how many seconds the messages of a run take. Raises CommandError where that is more than ``timeout``."""
    with tempfile.TemporaryDirectory(prefix="deviceshare-") as name:
        directory = Path(name)
        supervisor = Supervisor(notices.report)
        bus = natsserver.prepare("bus", directory)
        objects = natsserver.prepare("cluster", directory)
        try:
            await supervisor.start(bus.program)
            await supervisor.start(objects.program)
            connection = await connect(bus.url, "floor")
            await make_streams(connection)
            await connection.close()
            async with LocalCluster(objects.url) as cluster:
                await cluster.setup()
            async with asyncio.timeout(timeout):
                return await _race(doubles(run, pods, bus.url, objects.url))
        except TimeoutError:
            raise CommandError(f"the floor was not measured within {timeout:g} s") from None
        finally:
            await supervisor.stop()


def doubles(run: Run, pods: int, bus: str, objects: str) -> list[Double]:
    """Return what each process of a run has to do without deciding anything."""
    urls = {**dict.fromkeys((stream.value for stream in Stream), bus), STREAM: objects}
    publish: dict[str, list[Publish]] = {"bench": [], "inventory": [], "placement": [], "binder": [], "metrics": []}
    for stream, writer in WRITERS.items():
        publish[writer].append(_publish(run.traffic[stream], stream, bus))
    event = run.traffic[Stream.EVENT]
    for writer, messages in run.events.items():
        part = Traffic(messages, event.bytes * messages // max(1, event.messages), 1)
        publish[writer].append(_publish(part, Stream.EVENT, bus))
    written = run.traffic[STREAM]
    created = min(pods, written.messages)
    for writer, messages in (("bench", created), ("binder", written.messages - created)):
        part = Traffic(messages, written.bytes * messages // max(1, written.messages), max(1, min(messages, pods)))
        publish[writer].append(_publish(part, STREAM, objects))
    totals = dict.fromkeys(urls, 0)
    # The bucket of the local cluster holds the queue that every cluster has.
    totals[STREAM] = 1
    for work in publish.values():
        for one in work:
            totals[next(stream for stream, prefix in SUBJECT.items() if prefix == one.prefix)] += one.messages
    # The cluster is watched by inventory, by the controllers and by whoever measures; metrics' own stream is the rest.
    read = {name: list(streams) for name, streams in run.readers.items()}
    read.setdefault("metrics", []).append(Stream.EVENT)
    read.setdefault("inventory", []).append(STREAM)
    read["bench"] = [STREAM, STREAM]
    gets = {"binder": (Gets(objects, STREAM, SUBJECT[STREAM], pods),)}
    return [
        Double(
            name,
            tuple(work),
            tuple(Read(urls[stream], stream, totals[stream]) for stream in read.get(name, ()) if totals[stream]),
            gets.get(name, ()),
        )
        for name, work in publish.items()
    ]


def _publish(traffic: Traffic, stream: str, url: str) -> Publish:
    prefix = SUBJECT[stream]
    size = traffic.bytes // max(1, traffic.messages) - STORED - len(prefix) - 6
    return Publish(url, prefix, traffic.messages, max(0, size), traffic.subjects)


async def _race(work: list[Double]) -> float:
    """Start all doubles, let them begin together, and return how long the last one took."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "deviceshare_cli.bench.bus.double",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in work
    ]
    try:
        for process, double in zip(processes, work, strict=True):
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(double) + b"\n")
        for process in processes:
            await _expect(process, b"ready")
        began = asyncio.get_running_loop().time()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
        waiting = [asyncio.ensure_future(_expect(process, b"done")) for process in processes]
        try:
            await asyncio.gather(*waiting)
        finally:
            await end(*waiting)
        return asyncio.get_running_loop().time() - began
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _expect(process: asyncio.subprocess.Process, word: bytes) -> None:
    assert process.stdout is not None
    said = (await process.stdout.readline()).strip()
    if said != word:
        raise CommandError(f"a process of the floor ended early: {said.decode(errors='replace')}")
