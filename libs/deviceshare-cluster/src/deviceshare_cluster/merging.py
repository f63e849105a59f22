"""Merging the watches of several kinds into one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import NamedTuple

from deviceshare_bus.wire.tasks import Pace, end

from deviceshare_cluster.interface import Change, Listed


class Update(NamedTuple):
    """A batch of changes; ``listed``: everything that existed at ``revision`` has been delivered."""

    changes: list[Change]
    revision: int
    listed: bool = False

    @property
    def data_bytes(self) -> int:
        """The bytes of the objects."""
        return sum(len(change.raw) for change in self.changes)


WATCH_BYTES = 1 << 26
"""Bytes of the objects in the updates that wait for the reader, beside one update of each source."""
FULL_UPDATE = 1 << 16
"""Bytes of an update from which more is read at once: about what the transport holds while its reader waits."""
Source = AsyncGenerator[Update, None]


async def merge(
    sources: Iterable[Source], revision_of_all: Callable[[Iterable[int]], int], limit: int, window: float = 0.0
) -> AsyncGenerator[list[Change | Listed], None]:
    """Follow the sources concurrently, with one :class:`Listed` once each of them is listed.

    An error of a source is raised after the changes before it.

    Args:
        sources: one or more for each kind; only changes of one source are in order.
        revision_of_all: the revision of :class:`Listed`, from those at which the sources were listed.
        limit: updates that may wait for the reader; the sources pause at this limit, and at :data:`WATCH_BYTES`.
        window: seconds for which a source that is listed collects changes, unless it delivers :data:`FULL_UPDATE`; what
            comes after a pause is delivered at once.
    """
    queue: asyncio.Queue[tuple[Source, Update | Exception]] = asyncio.Queue(maxsize=limit)
    taken_all = asyncio.Event()
    waiting_bytes = 0

    async def follow(source: Source) -> None:
        nonlocal waiting_bytes
        pace, listed = Pace(window), False
        try:
            async with aclosing(source):
                async for update in source:
                    waiting_bytes += (size := update.data_bytes)
                    await queue.put((source, update))
                    while waiting_bytes > WATCH_BYTES:
                        taken_all.clear()
                        await taken_all.wait()
                    listed |= update.listed
                    if listed and size < FULL_UPDATE:
                        await pace.turn()
        except Exception as error:  # raised again by the reader below
            await queue.put((source, error))

    waiting = dict.fromkeys(sources)  # in order: the watches begin in the same order in every process
    revisions: list[int] = []
    failed: Exception | None = None
    tasks = [asyncio.create_task(follow(source)) for source in waiting]
    try:
        while True:
            taken = [await queue.get()]
            while not queue.empty():
                taken.append(queue.get_nowait())
            waiting_bytes = 0
            taken_all.set()
            out: list[Change | Listed] = []
            for source, update in taken:
                if isinstance(update, Exception):
                    failed = update
                    break
                out += update.changes
                if update.listed and source in waiting:
                    del waiting[source]
                    revisions.append(update.revision)
                    if not waiting:
                        out.append(Listed(revision_of_all(revisions)))
            if out:
                yield out
            if failed is not None:
                raise failed
    finally:
        await end(*tasks)
