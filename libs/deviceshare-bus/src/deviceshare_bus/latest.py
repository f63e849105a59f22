"""Writing the newest message of a subject until the server has acknowledged it.

For subjects that have one writer and of which only the newest message counts (EXPLAIN): there is no compare-and-set,
and nothing is lost while the bus is unreachable.
"""

import asyncio
import logging

from deviceshare_bus.connection import RETRY
from deviceshare_bus.publisher import Publisher, PublishError, Refused, Write

log = logging.getLogger("deviceshare.latest")


class LatestWriter:
    """Keeps the newest message of each subject until the server has acknowledged it.

    * Retried without end, with a back-off: writes whose outcome is unknown. A message may be written twice.
    * Final: a write that the server refuses. It is logged as an error and dropped.
    * Dropped: a message that is still waiting when a newer one for its subject is put.
    * Bounded by the number of subjects that the caller uses: one message is kept for each.

    :meth:`run` raises nothing but CancelledError; what is not acknowledged then is lost.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._wanted: dict[str, tuple[bytes, float | None]] = {}
        self._due = asyncio.Event()

    @property
    def open(self) -> int:
        """How many subjects do not yet hold their newest message, as far as is known."""
        return len(self._wanted)

    def put(self, subject: str, data: bytes, *, ttl: float | None = None) -> None:
        """Write a message under a subject, in place of one that is still waiting.

        ``ttl``: seconds after which the server deletes the message, counted from the write; None keeps it.
        """
        self._wanted[subject] = (data, ttl)
        self._due.set()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            if await self._write_all():
                failures = 0
                continue
            # One pause for all of them: a bus that goes away leaves thousands unanswered at once.
            await asyncio.sleep(RETRY.delay(failures))
            failures += 1
            self._due.set()

    async def _write_all(self) -> bool:
        """Write what is wanted now; returns whether all of it was answered."""
        sent = [
            (subject, wanted, await self._publisher.send(Write(subject, wanted[0]), ttl=wanted[1]))
            for subject, wanted in list(self._wanted.items())
        ]
        answered = True
        for subject, wanted, future in sent:
            try:
                await future
            except Refused as error:
                # It would be refused for ever.
                log.error("the bus does not take %s: %s", subject, error)
            except PublishError:
                answered = False
                continue
            if self._wanted.get(subject) is wanted:
                del self._wanted[subject]
        return answered
