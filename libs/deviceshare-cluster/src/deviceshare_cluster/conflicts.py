"""Read-modify-write of objects with several writers, as in client-go's ``retry.RetryOnConflict``."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from deviceshare.model import Backoff

from deviceshare_cluster.interface import ClusterError

TRIES = 8
"""The most writes of one update; with the pauses they take about three seconds."""
RETRY = Backoff(0.01, 1.0)
"""Seconds before the object is read again, plus up to the same at random."""

Read = TypeVar("Read")
Change = TypeVar("Change")


class VersionConflict(Exception):
    """The object changed after it was read; nothing was written."""


async def update_with_retry(
    what: str,
    get: Callable[[], Awaitable[Read | None]],
    mutate: Callable[[Read], Change | None],
    put: Callable[[Change], Awaitable[None]],
) -> bool:
    """Read an object, change it and write it back; after a conflict, read it again.

    Args:
        what: the object's name in errors.
        get: reads the object, None if there is none.
        mutate: returns what to write, None to write nothing. It is called again after each conflict.
        put: writes; raises VersionConflict if the object is not at the version that ``get`` returned.

    Returns:
        Whether something was written.

    Raises:
        ClusterError: :data:`TRIES` writes in a row met a conflict. Errors of ``get`` and ``put`` pass through.
    """
    for attempt in range(TRIES):
        found = await get()
        if found is None or (change := mutate(found)) is None:
            return False
        try:
            await put(change)
        except VersionConflict:
            if attempt + 1 < TRIES:
                await asyncio.sleep(RETRY.delay(attempt, random.random()))  # noqa: S311 - jitter
        else:
            return True
    raise ClusterError(f"cannot write {what}: it was changed by others during {TRIES} attempts")
