"""The map of cards, kept current: only the rows of changed nodes are computed again."""

import asyncio
import gzip
import secrets
import time
from typing import NamedTuple

import msgspec

from deviceshare_metrics.api_dashboard import Frame, History, Minute
from deviceshare_metrics.core import MetricsCore, StateStore
from deviceshare_metrics.core.card_rows import card_rows

MAX_AT_ONCE = 50
"""Rows that are computed on the event loop, in some milliseconds; more are computed in a thread."""
_encode = msgspec.json.Encoder().encode


def _rows(part: StateStore) -> dict[str, bytes]:
    return {row.name: _encode(row) for row in card_rows(part)}


class CardRows:
    """The encoded row of each node.

    Positions are of this process: ``<epoch>-<position of the core>``.
    """

    def __init__(self, core: MetricsCore) -> None:
        self._core = core
        self._epoch = secrets.token_hex(4)
        self._rows: dict[str, bytes] = {}
        self._position = 0
        self._lock = asyncio.Lock()

    @property
    def changed(self) -> bool:
        """Whether a node has changed since the rows were computed."""
        return self._core.changed_nodes.position != self._position

    async def refresh(self) -> str:
        """Compute the rows of changed nodes; returns the position of the rows."""
        async with self._lock:
            nodes = self._core.changed_nodes
            position, names = nodes.position, nodes.since(self._position)
            if names is None:
                names = [*self._rows, *(node.name for node in self._core.store.nodes.values())]
            if names:
                part = nodes.part(self._core.store, names)
                rows = _rows(part) if len(names) <= MAX_AT_ONCE else await asyncio.to_thread(_rows, part)
                for name in names:
                    if name in rows:
                        self._rows[name] = rows[name]
                    else:
                        self._rows.pop(name, None)
            self._position = position
            return f"{self._epoch}-{position}"

    async def all(self) -> bytes:
        """Return the whole map, as :class:`.api_dashboard.CardMap`."""
        position = await self.refresh()
        rows = b",".join([self._rows[name] for name in sorted(self._rows)])
        return b'{"position":"%b","at":%b,"nodes":[%b]}' % (position.encode(), _encode(round(time.time(), 3)), rows)

    def changes(self, since: str) -> bytes | None:
        """Return what changed up to the last refresh, as ``CardChanges``; None if the reader needs the whole map."""
        epoch, _, number = since.partition("-")
        if epoch != self._epoch or not number.isdigit():
            return None
        names = self._core.changed_nodes.since(int(number[:18]))
        if names is None:
            return None
        rows = b",".join([self._rows[name] for name in names if name in self._rows])
        gone = [name for name in names if name not in self._rows]
        return b'{"nodes":[%b],"gone":%b}' % (rows, _encode(gone))


FRAME_SECONDS = 60.0
"""Interval between two maps of the history."""
HISTORY_SECONDS = 24 * 3600.0
HISTORY_BYTES = 64 << 20
"""Bound of the compressed maps; beyond it maps are dropped so that the rest is spread evenly over the day."""


class RecordedMap(NamedTuple):
    """A map of the past: ``body`` is gzip-compressed; the numbers of pending and bound pods."""

    at: float
    pending: int
    bound: int
    body: bytes


class MapHistory:
    """Maps of the last day, one a minute, compressed as they are sent. A restart of the service empties it."""

    def __init__(self, most_bytes: int = HISTORY_BYTES) -> None:
        self._frames: list[RecordedMap] = []
        self._most_bytes = most_bytes

    async def record(self, at: float, body: bytes, pending: int, bound: int) -> None:
        """Add the map of a time (unix seconds), which is later than those before."""
        self.add(RecordedMap(at, pending, bound, await asyncio.to_thread(gzip.compress, body, 3)))

    def add(self, frame: RecordedMap) -> None:
        """Add a compressed map, and drop what is too old or too much."""
        self._frames = [each for each in self._frames if each.at > frame.at - HISTORY_SECONDS]
        self._frames.append(frame)
        while len(self._frames) > 2 and self.size > self._most_bytes:
            inner = range(1, len(self._frames) - 1)
            closest = min(inner, key=lambda index: self._frames[index + 1].at - self._frames[index - 1].at)
            del self._frames[closest]

    @property
    def size(self) -> int:
        """Bytes of all maps."""
        return sum(len(frame.body) for frame in self._frames)

    def find(self, at: float) -> bytes | None:
        """Return the gzip-compressed map of a time: the last one not later, else the first one."""
        before = [frame for frame in self._frames if frame.at <= at + 0.001] or self._frames[:1]
        return before[-1].body if before else None

    def contents(self, minutes: dict[int, dict[str, int]]) -> History:
        """Return the times of the maps, and the steps by minute."""
        return History(
            frames=tuple(Frame(frame.at, frame.pending, frame.bound) for frame in self._frames),
            minutes=tuple(Minute(minute * 60.0, steps) for minute, steps in minutes.items()),
        )
