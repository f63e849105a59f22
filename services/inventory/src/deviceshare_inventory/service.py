"""The shell of inventory: watches the cluster, compares revisions and records Kubernetes Events for the core."""

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from deviceshare.conf import SCHEDULER, parse_conf
from deviceshare.model import ConfigFact
from deviceshare.objects import DEVICE_KINDS, KINDS
from deviceshare_bus.cores.core import Command, Event
from deviceshare_bus.cores.division import of_replicas
from deviceshare_bus.messages.codec import Message, decode_fact
from deviceshare_bus.messages.leases import decode_fence, decode_lease
from deviceshare_bus.messages.subjects import FACT_KINDS, Address, Stream
from deviceshare_bus.messages.validation import validated
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster import open_cluster
from deviceshare_cluster.dry_run import DryRunCluster
from deviceshare_cluster.interface import Change, Cluster, ClusterError, Listed
from deviceshare_cluster.signing import OFF, signing_keys

from deviceshare_inventory.core import (
    CompareRevisions,
    ComparisonFailed,
    EventRecorded,
    FactReceived,
    ObjectsChanged,
    RecordEvent,
    RecordFailed,
    RestartWatch,
    RevisionsCompared,
    WatchFailed,
    WatchStarted,
    build_core,
    core_arguments,
)

log = logging.getLogger("deviceshare.inventory")

WATCH_WINDOW = 0.02
"""Seconds for which changes of a kind are collected: a pod that comes alone costs a round of each service."""


def read_conf(path: str) -> tuple[ConfigFact, tuple[str, ...]]:
    """Return the configuration that a file holds, and its warnings. Raises OSError, UnicodeDecodeError, ConfigError."""
    fact = ConfigFact(name=SCHEDULER, text=Path(path).read_text(encoding="utf-8"), source=f"File {path}")
    return fact, parse_conf(fact.text, fact.source).warnings


async def main(context: Context) -> None:
    """Run inventory until cancelled."""
    options = context.options
    file, warnings = read_conf(options.conf) if options.conf else (None, ())
    for warning in warnings:
        log.warning("%s", warning)
    arguments = core_arguments(options.scheduler_name, file, random.random())  # noqa: S311 - jitter
    opened = open_cluster(options.cluster, silence=options.watch_silence)
    async with DryRunCluster(opened) if options.dry_run else opened as cluster:
        await run(context, cluster, arguments, () if options.dry_run else signing_keys(), options.watch_window)


async def run(
    context: Context, cluster: Cluster, arguments: dict[str, Any], keys: Sequence[bytes], window: float = WATCH_WINDOW
) -> None:
    """Run inventory on a cluster until cancelled; ``arguments`` are those of :func:`core_arguments`.

    ``window``: for how many seconds changes are collected, as in :meth:`.Cluster.watch`.
    """
    member = f"{context.instance}-{secrets.token_hex(8)}"
    arguments = {**arguments, "instance": context.instance, "member": member}
    core = build_core(arguments, keys)
    context.metrics.signing = bool(keys)
    if not keys:
        log.warning("%s", OFF)
    context.revision = lambda: core.revision
    context.detail = lambda: core.detail
    context.hindrance = lambda: core.obstacle
    service = ClusterSide(cluster, window)
    source = Source(Stream.CLUSTER, decode_message, known=core.knows)
    service.shell = Shell(context, core, [source], service.perform, arguments=arguments)
    await service.shell.run(service.watch())


def _event(message: Message, where: Address, content: Any) -> Event | None:
    if where.kind in ("lease", "fence"):
        return of_replicas("inventory", content)
    return FactReceived(message.subject, message.sequence, content)


decode_message = validated(
    {**dict.fromkeys(FACT_KINDS, decode_fact), "lease": decode_lease, "fence": decode_fence}, _event
)
"""Returns the event of a message of CLUSTER. Raises ``InvalidMessageError``."""


class ClusterSide:
    """Executes the commands that concern the cluster, and runs the watch."""

    shell: Shell

    def __init__(self, cluster: Cluster, window: float) -> None:
        self._cluster = cluster
        self._window = window
        self._restart = asyncio.Event()
        self._kinds = tuple(KINDS)

    async def perform(self, command: Command) -> Event | None:
        """Execute a command of :mod:`.core.commands` and return the event that answers it."""
        match command:
            case RestartWatch(devices=devices):
                self._kinds = (*KINDS, *DEVICE_KINDS) if devices else tuple(KINDS)
                self._restart.set()
                return None
            case CompareRevisions(comparison=comparison, kind=kind):
                try:
                    return RevisionsCompared(comparison, kind, await self._cluster.revisions(kind))
                except ClusterError as error:
                    return ComparisonFailed(comparison, kind, str(error), error.final)
            case RecordEvent(token=token, record=record):
                try:
                    await self._cluster.record_event(record)
                except ClusterError as error:
                    return RecordFailed(token, str(error), error.final)
                return EventRecorded(token)
            case _:
                raise TypeError(f"inventory has no command {type(command).__name__}")

    async def watch(self) -> None:
        """Watch the cluster, from the beginning whenever the core requests it."""
        while True:
            await self._restart.wait()
            self._restart.clear()
            watch = asyncio.ensure_future(self._watch_once())
            restart = asyncio.ensure_future(self._restart.wait())
            try:
                await asyncio.wait({watch, restart}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(watch, restart)
            if not watch.cancelled():
                watch.result()

    async def _watch_once(self) -> None:
        self.shell.handle(WatchStarted())
        try:
            async with aclosing(_closable(self._cluster.watch(self._kinds, self._window))) as batches:
                async for batch in batches:
                    for event in split(batch):
                        self.shell.handle(event)
                    await self.shell.settled()
            self.shell.handle(WatchFailed("the watch ended", final=False))
        except ClusterError as error:
            self.shell.handle(WatchFailed(str(error), error.final))


def split(batch: Sequence[Change | Listed]) -> Iterator[ObjectsChanged]:
    """Yield the events of a batch of a watch; ``Listed`` ends an event."""
    changes: list[Change] = []
    for item in batch:
        if isinstance(item, Change):
            changes.append(item)
        else:
            yield ObjectsChanged(tuple(changes), item.revision)
            changes = []
    if changes:
        yield ObjectsChanged(tuple(changes))


def _closable(batches: AsyncIterator[list[Change | Listed]]) -> AsyncGenerator[list[Change | Listed], None]:
    """Return a watch as the generator that it is: it must be closed."""
    return cast(AsyncGenerator[list[Change | Listed], None], batches)
