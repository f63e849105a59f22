"""What the controllers of the local cluster have in common: objects to act on, and again after an error."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from deviceshare_cluster.interface import Change, Listed

from deviceshare_localcluster.kinds import Key

_RETRY_SECONDS = 0.5


class WorkList:
    """The keys of the objects that a controller has to act on, once all objects are listed."""

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self._listed = False
        self._changed = asyncio.Event()
        self._acting = False

    @property
    def open(self) -> int:
        """The number of objects that may have to be changed."""
        return len(self.keys) + self._acting

    def changes(self, batch: Iterable[Change | Listed]) -> Iterator[Change]:
        """Yield the changes of a batch, whose keys the caller adds; then wake :meth:`run`."""
        for change in batch:
            if isinstance(change, Listed):
                self._listed = True
            else:
                yield change
        if self._listed and self.keys:
            self._changed.set()

    async def run(
        self,
        act: Callable[[Mapping[Key, None]], Awaitable[Mapping[Key, None]]],
        pause: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Act on the keys without end. ``act`` returns those that are to be tried again after a while.

        ``pause``: after how many seconds to act although nothing changes, None: never.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause()):
                    await self._changed.wait()
            self._changed.clear()
            keys, self.keys = self.keys, {}
            self._acting = True
            try:
                if failed := await act(keys):
                    await asyncio.sleep(_RETRY_SECONDS)
                    self.keys = dict(failed) | self.keys
                    self._changed.set()
            finally:
                self._acting = False
