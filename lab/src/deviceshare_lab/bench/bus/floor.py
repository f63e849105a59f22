"""The floor: messages of the same number and size as in a run, sent through bare nats-py without decisions.

Every process of the run has a double, which publishes the same messages and reads the same streams. The doubles run at
the same time, do not wait for each other, and decode nothing: the floor is the cost of transferring the messages.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.tasks import end
from deviceshare_cli import natsserver
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.supervisor import Supervisor
from deviceshare_localcluster import LocalCluster
from deviceshare_localcluster.kinds import STREAM

from deviceshare_lab.bench.bus.measure import Run
from deviceshare_lab.bench.bus.traffic import Traffic

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
"""Bytes that the server stores per message besides subject, headers and data."""


class Publish(msgspec.Struct, frozen=True):
    """Messages to publish: number, size in bytes, and number of subjects ``<prefix>.<number>``."""

    url: str
    prefix: str
    messages: int
    size: int
    subjects: int


class Read(msgspec.Struct, frozen=True):
    """A stream to read, up to sequence ``messages``."""

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
    """The work of one process."""

    name: str
    publish: tuple[Publish, ...]
    read: tuple[Read, ...]
    gets: tuple[Gets, ...] = ()


async def floor(run: Run, pods: int, timeout: float, notices: Notices) -> float:
    """Return the seconds that the messages of a run take. Raises CommandError after ``timeout`` seconds."""
    with tempfile.TemporaryDirectory(prefix="deviceshare-") as name:
        directory = Path(name)
        supervisor = Supervisor(notices.report)
        bus = natsserver.prepare("bus", directory)
        objects = natsserver.prepare("cluster", directory, synced=False)
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
    """Return the double of each process of a run."""
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
    # The stream of the local cluster has one message at the start, the default queue.
    totals[STREAM] = 1
    for work in publish.values():
        for one in work:
            totals[next(stream for stream, prefix in SUBJECT.items() if prefix == one.prefix)] += one.messages
    # Inventory and the controllers watch the cluster; metrics also reads EVENT.
    read = {name: list(streams) for name, streams in run.readers.items()}
    read.setdefault("metrics", []).append(Stream.EVENT)
    read.setdefault("inventory", []).append(STREAM)
    read["bench"] = [STREAM]
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
    """Start all doubles at the same time and return the seconds until the last one is done."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "deviceshare_lab.bench.bus.double",
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
    line = (await process.stdout.readline()).strip()
    if line != word:
        raise CommandError(f"a process of the floor ended early: {line.decode(errors='replace')}")
