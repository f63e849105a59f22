"""Inventory's shell: the watch, the bus, the clock around the core."""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import msgspec
from deviceshare.conf import SCHEDULER, parse_conf
from deviceshare.model import Backoff, ConfigFact, Fact, Problem
from deviceshare_bus.eventlog import RECONCILED
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import decode_fact
from deviceshare_bus.publisher import Conflict, Refused
from deviceshare_bus.publisher import Write as BusWrite
from deviceshare_bus.readback import read_back
from deviceshare_bus.service import Context
from deviceshare_bus.subjects import Stream
from deviceshare_bus.tasks import Pace
from deviceshare_cluster import open_cluster
from deviceshare_cluster.interface import Change, Cluster, ClusterError, EventRecord, Listed, Revisions
from deviceshare_cluster.signing import signing_keys

from deviceshare_inventory.configs import Configs
from deviceshare_inventory.core import KINDS, Core, Report, Step
from deviceshare_inventory.desired_state import ReadBack, Write
from deviceshare_inventory.seen import Place

log = logging.getLogger("deviceshare.inventory")

FOLD = 0.002
"""Seconds in which changes and answers gather, while they come that fast."""
READS = 64
"""Subjects read back at once."""
RETRY = Backoff(0.1, 5.0)
"""Seconds between two tries while the cluster does not answer."""
REPORT_TRIES = 5
COMPARED = ("Node", "Pod", "PodGroup", "PriorityClass", "Queue")
COMPARE_INTERVAL = 5.0
"""Seconds between two comparisons of the watch with what the cluster has; up to half as much longer at random."""
COMPARE_SHARE = 0.02
"""How much of the time may go into that: a large cluster is compared less often."""
LATE = 5.0
"""Seconds after which a change is lost that the cluster has and the watch has not brought."""


def read_conf(path: str) -> tuple[ConfigFact, tuple[str, ...]]:
    """Return the configuration that a file holds, and its warnings. Raises OSError, UnicodeDecodeError, ConfigError."""
    fact = ConfigFact(name=SCHEDULER, text=Path(path).read_text(encoding="utf-8"), source=f"File {path}")
    return fact, parse_conf(fact.text, fact.source).warnings


async def main(context: Context) -> None:
    """Run inventory until cancelled."""
    file, warnings = read_conf(context.options.conf) if context.options.conf else (None, ())
    for warning in warnings:
        log.warning("%s", warning)
    async with open_cluster(context.options.cluster, silence=context.options.watch_silence) as cluster:
        core = Core(frozenset(context.options.scheduler_name), Configs(file), keys=signing_keys())
        await Inventory(context, cluster, core).run()


class Inventory:
    """Moves bytes between a cluster, the core and the bus."""

    def __init__(self, context: Context, cluster: Cluster, core: Core) -> None:
        self._context = context
        self._cluster = cluster
        self._core = core
        self._work = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._reads = asyncio.Semaphore(READS)
        self._patience: asyncio.Timeout | None = None
        """Ends the watch of now when it is set to expire."""
        self._reports: deque[Report] = deque()
        self._reported = asyncio.Event()
        self._reporting = 0
        context.open_work = lambda: core.open_work + len(self._reports) + self._reporting
        context.revision = lambda: core.revision
        context.detail = lambda: {"unpublished": len(core.desired.open), "reports": len(self._reports)}

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._follow())
            self._group.create_task(self._watch())
            self._group.create_task(self._compare())
            self._group.create_task(self._carry_out())
            self._group.create_task(self._report())

    async def _follow(self) -> None:
        """See what stands on the bus: all of it at start, then what others write."""
        async for batch in self._context.follow(Stream.CLUSTER):
            starting = not self._caught_up.is_set()
            for message in batch.messages:
                if self._core.desired.knows(message.subject, message.sequence):
                    continue
                fact = self._decode(message)
                if starting:
                    self._core.load(message.subject, message.sequence, fact)
                else:
                    self._core.desired.stands(message.subject, message.sequence, fact, foreign=True)
            if batch.caught_up:
                self._caught_up.set()
            self._work.set()

    async def _watch(self) -> None:
        """Watch the cluster. Where a watch had to list anew a new one is begun: of that one the beginning is known."""
        await self._caught_up.wait()
        failures = 0
        while True:
            self._core.begin_list()
            listed = False
            try:
                async with (
                    asyncio.timeout(None) as self._patience,
                    aclosing(_closable(self._cluster.watch(KINDS))) as batches,
                ):
                    async for batch in batches:
                        if listed and any(isinstance(item, Listed) for item in batch):
                            break
                        listed = listed or any(isinstance(item, Listed) for item in batch)
                        self._core.deliver(batch)
                        self._work.set()
                        failures = 0
            except ClusterError as error:
                log.warning("the cluster cannot be watched: %s", error)
                await asyncio.sleep(RETRY.delay(failures))
                failures += 1
            except TimeoutError:
                log.info("the watch is begun anew")
            else:
                log.info("the cluster was listed anew")

    async def _compare(self) -> None:
        """Look all the time whether the watch has lost a change; a new one brings what is there."""
        clock = asyncio.get_running_loop().time
        took = 0.0
        while True:
            pause = max(COMPARE_INTERVAL, took / COMPARE_SHARE)
            await asyncio.sleep(pause * (1 + random.random() / 2))  # noqa: S311 - jitter
            took = 0.0
            for kind in COMPARED:
                since, began = self._core.seen.begin_comparison(kind), clock()
                try:
                    there = await self._cluster.revisions(kind)
                except ClusterError as error:
                    log.debug("cannot compare %s now: %s", kind, error)
                    continue
                took += clock() - began
                lost = await self._lost(kind, there, since)
                if lost and self._patience is not None:
                    log.warning("the watch has lost %d changes of kind %s, such as %s/%s", len(lost), kind, *lost[0])
                    self._context.events.count(f"{RECONCILED}fact", len(lost))
                    self._patience.reschedule(0)
                    break

    async def _lost(self, kind: str, there: Revisions, since: int) -> list[Place]:
        """Return the objects of a kind of which the watch has lost a change."""
        seen, lists = self._core.seen, self._core.lists
        behind = seen.behind(kind, there, since)
        if seen.may_come(kind, behind, there.at):
            await asyncio.sleep(LATE)
        # What was listed anew meanwhile is as it is.
        return seen.lost(kind, behind) if lists and lists == self._core.lists else []

    async def _carry_out(self) -> None:
        """Do what the core says, whenever something happened."""
        pace = Pace(FOLD)
        while True:
            await self._work.wait()
            await pace.turn()
            self._work.clear()
            for instruction in self._core.take(time.time()):
                match instruction:
                    case Write():
                        await self._write(instruction)
                    case ReadBack():
                        self._group.create_task(self._read_back(instruction.subject))
                    case Report():
                        self._report_problem(instruction)
                    case Step():
                        self._context.events.step(instruction.uid, instruction.pod, instruction.name)

    async def _write(self, write: Write) -> None:
        future = await self._context.publisher.send(BusWrite(write.subject, write.data, write.expected), ttl=write.ttl)
        future.add_done_callback(lambda done: self._answered(write.subject, done))

    def _answered(self, subject: str, done: asyncio.Future[int]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._core.desired.acknowledged(subject, done.result())
        elif isinstance(error, Refused):
            log.error("the bus does not take %s: %s", subject, error)
            self._core.desired.refused(subject)
        else:
            if isinstance(error, Conflict):
                self._context.events.count("inventory_conflicts")
            self._core.desired.unclear(subject)
        self._work.set()

    async def _read_back(self, subject: str) -> None:
        """Read what stands under a subject."""
        async with self._reads:
            found = await read_back(self._context.connection, Stream.CLUSTER, subject)
        if found is None:
            self._core.desired.read_back(subject, 0, None)
        else:
            self._core.desired.read_back(subject, found.sequence, self._decode(found))
        self._work.set()

    def _decode(self, message: Message) -> Fact | None:
        try:
            fact: Fact = decode_fact(message.data)
        except msgspec.MsgspecError as error:
            self._context.events.quarantine(Stream.CLUSTER, message, error)
            return None
        return fact

    def _report_problem(self, report: Report) -> None:
        remark = report.remark
        details = {"subject": f"{report.kind} {report.namespace}/{report.name}"}
        if isinstance(remark, Problem):
            details = {"subject": remark.subject, "field": remark.field, "value": remark.value}
        log.warning("%s", remark, extra={**details, "reason": report.reason})
        self._context.events.count("input_problems")
        self._reports.append(report)
        self._reported.set()

    async def _report(self) -> None:
        """Record a Kubernetes Event for each problem; one that cannot be recorded is in the log."""
        while True:
            await self._reported.wait()
            self._reported.clear()
            self._reporting = 1
            while self._reports:
                await self._record(self._reports.popleft())
            self._reporting = 0

    async def _record(self, report: Report) -> None:
        event_record = EventRecord(
            report.kind, report.namespace, report.name, report.uid, True, report.reason, str(report.remark), time.time()
        )
        for attempt in range(REPORT_TRIES):
            try:
                await self._cluster.record_event(event_record)
                return
            except ClusterError as error:
                log.debug("cannot record %s yet: %s", report.reason, error)
                await asyncio.sleep(RETRY.delay(attempt))
        log.warning("no Event could be recorded about %s %s/%s", report.kind, report.namespace, report.name)


def _closable(batches: AsyncIterator[list[Change | Listed]]) -> AsyncGenerator[list[Change | Listed], None]:
    """Return a watch as what it is: it has to be closed where it is left."""
    return cast(AsyncGenerator[list[Change | Listed], None], batches)
