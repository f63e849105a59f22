"""One service that runs in this process, on a real bus."""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.runtime.service import Context, Main, ServiceState, run_epochs
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.streams.stream_watch import StreamWatch
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster.kube import SILENCE
from deviceshare_inventory.service import WATCH_WINDOW

INVENTORY = {
    "cluster": "kube",
    "conf": None,
    "scheduler_name": ["volcano"],
    "watch_silence": SILENCE,
    "watch_window": WATCH_WINDOW,
    "dry_run": False,
}
"""The options of inventory."""
OPEN: dict[str, Any] = {"http_access": "", "http_secret_file": "", "http_hosts": ""}
"""The options of the HTTP ports without a setting."""


@asynccontextmanager
async def at_work(service: str, main: Main, url: str, **options: Any) -> AsyncIterator[Context]:
    """Run a service on the bus at ``url``, whose streams are made where they are missing; gives its context."""
    connection = await connect(url, service)
    await make_streams(connection)
    publisher = Publisher(connection)
    events = EventLog(publisher, service, "1")
    context = Context(service, "1", argparse.Namespace(**OPEN | options), connection, publisher, events)
    task = asyncio.ensure_future(main(context))
    try:
        yield context
    finally:
        await end(task)
        await connection.close()


@asynccontextmanager
async def lasting(service: str, main: Main, url: str, hold: float, **options: Any) -> AsyncIterator[ServiceState]:
    """Run a service, and again after a loss of the bus's data, as its process does; gives its state.

    ``hold``: seconds for which a ledger that replaces a lost one is held.
    """
    connection = await connect(url, service)
    await make_streams(connection)
    publisher = Publisher(connection)

    def begin(watch: StreamWatch, held: float) -> Context:
        events = EventLog(publisher, service, "1")
        options_given = argparse.Namespace(**OPEN | options)
        return Context(service, "1", options_given, connection, publisher, events, hold=held, watch=watch)

    state = ServiceState(1, hold)
    task = asyncio.ensure_future(run_epochs(connection, main, begin, state))
    try:
        yield state
    finally:
        await end(task)
        await connection.close()


def fail_first_write(monkeypatch: pytest.MonkeyPatch, error: Exception, *subjects: str) -> None:
    """Have the answers to the first writes of these subjects fail, though they are written."""
    left, send = set(subjects), Publisher.send

    async def failing(self: Publisher, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        future = await send(self, write, ttl=ttl)
        if write.subject not in left:
            return future
        left.remove(write.subject)
        failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed

    monkeypatch.setattr(Publisher, "send", failing)


REPLAY = """
import sys
from importlib import import_module
from pathlib import Path
from deviceshare_bus.cores.core_log import read_dump, replay
service = import_module(sys.argv[2])
with Path(sys.argv[1]).open("rb") as file:
    header, entries = read_dump(file)
    replayed = list(replay(service.build_core(header.arguments), entries, service.decode_event))
assert header.dropped == 0
assert all(each.identical for each in replayed), [each for each in replayed if not each.identical]
print(sum(len(each.commands) for each in replayed))
"""


async def replayed_elsewhere(path: Path, package: str) -> int:
    """Replay a core log in a process with another hash seed; return the number of commands, which are identical.

    ``package`` has ``build_core`` and ``decode_event``.
    """
    command = [sys.executable, "-c", REPLAY, str(path), package]
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
