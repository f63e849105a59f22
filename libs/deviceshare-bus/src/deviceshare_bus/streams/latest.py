"""Writing the newest message of a subject until the server has acknowledged it.

For subjects with one writer of which only the newest message matters (EXPLAIN): without compare-and-set, and without
losing the newest message while the bus is unreachable.
"""

import asyncio
import contextlib
import logging

from deviceshare_bus.cores.postponed import Postponed
from deviceshare_bus.streams.publisher import Publisher, PublishError, Refused, Write
from deviceshare_bus.wire.connection import RETRY
from deviceshare_bus.wire.tasks import Alarm

log = logging.getLogger("deviceshare.latest")


class LatestWriter:
    """Keeps the newest message of each subject until the server has acknowledged it.

    * Writes with an unknown outcome are retried without end, with a back-off. A message may be written twice.
    * A write that the server refuses is logged as an error, and retried after pauses of up to a minute.
    * A waiting message is dropped when a newer one for its subject is put.
    * One message is kept per subject, so the number of subjects of the caller is the bound.

    :meth:`run` raises only CancelledError; messages that are not acknowledged by then are lost, unless :meth:`drain`
    writes them.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._wanted: dict[str, tuple[bytes, float | None]] = {}
        self._refused: dict[str, tuple[bytes, float | None]] = {}
        """Messages that the server has refused."""
        self._postponed = Postponed()
        """The subjects of these messages."""
        self._due = Alarm()

    @property
    def open(self) -> int:
        """The number of subjects whose newest message is not acknowledged and was not refused."""
        return len(self._wanted)

    def put(self, subject: str, data: bytes, *, ttl: float | None = None) -> None:
        """Write a message under a subject, replacing a waiting one.

        ``ttl``: seconds after which the server deletes the message, counted from the write; None keeps it.
        """
        self._wanted[subject] = (data, ttl)
        self._refused.pop(subject, None)
        self._postponed.forget(subject)
        self._due.set()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            due = self._postponed.due
            await self._due.wait(None if due is None else due - asyncio.get_running_loop().time())
            self._due.clear()
            for subject in self._postponed.take(asyncio.get_running_loop().time()):
                self._wanted[subject] = self._refused.pop(subject)
            if await self._write_all():
                failures = 0
                continue
            # One pause for all subjects: an unreachable bus leaves thousands of writes unanswered at the same time.
            await asyncio.sleep(RETRY.delay(failures))
            failures += 1
            self._due.set()

    async def drain(self, seconds: float) -> None:
        """Write what waits once more, within so many seconds. To be called after :meth:`run`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._write_all()

    async def _write_all(self) -> bool:
        """Write all waiting messages; return whether the server answered every write."""
        sent = [
            (subject, wanted, await self._publisher.send(Write(subject, wanted[0]), ttl=wanted[1]))
            for subject, wanted in list(self._wanted.items())
        ]
        answered = True
        for subject, wanted, future in sent:
            try:
                await future
            except Refused as error:
                log.error("the bus refuses %s: %s", subject, error)
                if self._wanted.get(subject) is wanted:
                    self._refused[subject] = wanted
                    self._postponed.add(subject, asyncio.get_running_loop().time())
            except PublishError:
                answered = False
                continue
            else:
                self._postponed.forget(subject)
            if self._wanted.get(subject) is wanted:
                del self._wanted[subject]
        return answered
