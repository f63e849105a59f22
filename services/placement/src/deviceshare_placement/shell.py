"""The shell around the placement core: it moves bytes between the bus and the core, and keeps its time.

CLUSTER, LEDGER and OUTCOME are read for ever; after each batch the core may run a cycle; what it wants written is
published with compare-and-set, and the core hears what became of it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

import msgspec
from deviceshare_bus import messages, subjects
from deviceshare_bus.eventlog import RECONCILED
from deviceshare_bus.follower import Message
from deviceshare_bus.latest import LatestWriter
from deviceshare_bus.publisher import Conflict, PublishError, Refused, Write
from deviceshare_bus.readback import read_back
from deviceshare_bus.service import Context
from deviceshare_bus.setup import DAY
from deviceshare_bus.subjects import Stream

from deviceshare_placement.core import Instructions, PlacementCore, Publication

log = logging.getLogger("deviceshare.placement")

FOLD = 0.002
"""Seconds that a cycle waits for more to decide, so that a burst of pods becomes few ledgers."""


class Placement:
    """One run of the placement service, on one epoch of the bus."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._core = PlacementCore(context.instance)
        self._wake = asyncio.Event()
        self._behind = {Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME}
        self._publishing = 0
        self._explain = LatestWriter(context.publisher)
        context.open_work = self._open

    async def run(self) -> None:
        """Read and decide until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._explain.run())
            group.create_task(self._follow(Stream.CLUSTER, self._on_fact))
            group.create_task(self._follow(Stream.LEDGER, self._on_ledger))
            group.create_task(self._follow(Stream.OUTCOME, self._on_outcomes))
            group.create_task(self._decide(group))

    def _open(self) -> int:
        # Before everything has been read nobody knows what there is to do.
        return (
            self._core.open
            + self._explain.open
            + self._publishing
            + (0 if self._core.started and self._core.synced else 1)
        )

    async def _follow(self, stream: Stream, take: Callable[[Message], Instructions]) -> None:
        async for batch in self._context.follow(stream):
            for message in batch.messages:
                try:
                    instructions = take(message)
                except msgspec.DecodeError as error:
                    self._context.events.quarantine(stream, message, error)
                    if stream is not Stream.LEDGER:
                        continue
                    instructions = self._core.on_unreadable_ledger(subjects.node_of(message.subject))
                await self._carry_out(instructions)
            if batch.caught_up and stream in self._behind:
                self._behind.discard(stream)
                if not self._behind:
                    await self._carry_out(self._core.on_caught_up(time.time()))
            self._wake.set()

    def _on_fact(self, message: Message) -> Instructions:
        return self._core.on_fact(message.subject, messages.decode_fact(message.data), time.time())

    def _on_ledger(self, message: Message) -> Instructions:
        ledger = messages.decode_ledger(message.data)
        return self._core.on_ledger(ledger.node, message.sequence, ledger, time.time())

    def _on_outcomes(self, message: Message) -> Instructions:
        return self._core.on_outcomes(messages.decode_outcomes(message.data), time.time())

    async def _decide(self, group: asyncio.TaskGroup) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._core.next_due(time.time())):
                    await self._wake.wait()
                await asyncio.sleep(FOLD)
            self._wake.clear()
            instructions = self._core.cycle(time.time())
            publications, instructions.publications = instructions.publications, []
            if publications:
                self._publishing += 1
                group.create_task(self._publish(publications))
            await self._carry_out(instructions)

    async def _publish(self, publications: list[Publication]) -> None:
        """Send all of a cycle's ledgers at once, then tell the core what became of each."""
        publisher = self._context.publisher
        try:
            under_way = []
            for publication in publications:
                writes = [
                    Write(subjects.ledger(write.node), messages.encode(write.ledger), write.expected)
                    for write in publication.writes
                ]
                send = publisher.send(writes[0]) if len(writes) == 1 else publisher.send_atomic(writes)
                under_way.append((publication, await send))
            for publication, future in under_way:
                await self._carry_out(await self._answer(publication, future))
        finally:
            self._publishing -= 1
            self._wake.set()

    async def _answer(self, publication: Publication, future: asyncio.Future[int]) -> Instructions:
        try:
            sequence = await future
        except Conflict:
            self._context.events.count("ledger_conflicts")
            return self._core.on_conflict(publication.token)
        except Refused as refused:
            log.error("a ledger was refused by the server: %s", refused)
            return self._core.on_refused(publication.token, str(refused), time.time())
        except PublishError:
            self._context.events.count("ledger_writes_unknown")
            return self._core.on_unknown(publication.token, time.time())
        return self._core.on_published(publication.token, sequence, time.time())

    async def _carry_out(self, instructions: Instructions) -> None:
        events = self._context.events
        for explanation in instructions.explanations:
            self._explain.put(subjects.explain(explanation.uid), messages.encode(explanation))
        for explanation in instructions.forget:
            # The last word stays for a day after its pod.
            self._explain.put(subjects.explain(explanation.uid), messages.encode(explanation), ttl=DAY)
        for step in instructions.steps:
            events.step(
                step.uid, step.pod, step.name, node=step.node, message=step.message, since=step.since, at=step.at
            )
        for what in instructions.reconciled:
            events.count(f"{RECONCILED}{what}")
        if instructions.read_back:
            await asyncio.gather(*map(self._read_back, instructions.read_back))

    async def _read_back(self, node: str) -> None:
        """Read a node's ledger as it stands."""
        found = await read_back(self._context.connection, Stream.LEDGER, subjects.ledger(node))
        if found is None:
            instructions = self._core.on_read_back(node, 0, None, time.time())
        else:
            try:
                ledger = messages.decode_ledger(found.data)
            except msgspec.DecodeError:
                # It is put aside where the stream is followed.
                instructions = self._core.on_unreadable_ledger(node)
            else:
                instructions = self._core.on_read_back(node, found.sequence, ledger, time.time())
        await self._carry_out(instructions)
        self._wake.set()


async def main(context: Context) -> None:
    """Run the placement service."""
    await Placement(context).run()
