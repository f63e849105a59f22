"""The answers to scrapes: computed and compressed in a thread, one at a time, and shared by concurrent requests.

The text of 5,000 nodes with 8 cards has 90 MB, 3 MB compressed. Only compressed text is kept. It
is used again for a multiple of the time that it took: however often Prometheus asks, a service with a large cluster
spends most of its time on following the streams.
"""

import asyncio
import re
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NamedTuple

from deviceshare_bus.web.metric_formats import accepted_format
from prometheus_client.exposition import choose_encoder

from deviceshare_metrics.sections import Piece, compressed

REUSE = 3.0
"""How many times as long as a text took to compute it is used."""
MAX_SECONDS = 15.0
"""Seconds for which a text is used, at most."""
MAX_FORMATS = 4
"""Formats of which the latest text is kept."""
_GZIP = 31
"""zlib's window bits for gzip."""
_PART = 1 << 14
"""Compressed bytes that are decompressed at once, to some 200 kB."""


class Text(NamedTuple):
    """An answer: its content type, the text compressed by gzip, and until when it is used."""

    content_type: str
    compressed: bytearray
    until: float

    async def plain(self) -> AsyncIterator[bytes]:
        """Yield the text in parts, for a client that does not accept gzip."""
        parts = _decompressed(self.compressed)
        while part := await asyncio.to_thread(next, parts, b""):
            yield part


class Scrapes:
    """Computes the answers to scrapes.

    Args:
        expose: collects the metrics and returns a text in pieces, which are computed in a thread, and its content type;
            its argument is a header ``Accept``, one of :data:`~deviceshare_bus.web.metric_formats.FORMATS`.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        expose: Callable[[str], Awaitable[tuple[Iterator[Piece], str]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expose = expose
        self._clock = clock
        self._latest: dict[str, Text] = {}
        """By the content type, in the order of their computation."""
        self._computing: dict[str, asyncio.Task[Text]] = {}
        """By the content type: at most one for each of :data:`~deviceshare_bus.web.metric_formats.FORMATS`."""
        self._one_at_a_time = asyncio.Lock()

    async def get(self, accept: str) -> Text:
        """Return a text that was computed a moment ago, is being computed, or is computed now.

        ``accept`` is the header of a request. Its versions and parameters do not choose the key of a text: only the
        format that they select does.
        """
        accept = accepted_format(accept)
        _, content_type = choose_encoder(accept)
        found = self._latest.get(content_type)
        if found is not None and self._clock() < found.until:
            return found
        if (computing := self._computing.get(content_type)) is None:
            computing = self._computing[content_type] = asyncio.create_task(self._compute(accept, content_type))
            computing.add_done_callback(lambda done: self._computed(content_type, done))
        # A client that goes away must not end the computation: others may wait for it, and the thread would go on.
        return await asyncio.shield(computing)

    def _computed(self, content_type: str, done: asyncio.Task[Text]) -> None:
        del self._computing[content_type]
        if not done.cancelled():
            done.exception()  # raised for those that wait, if any are left

    async def _compute(self, accept: str, content_type: str) -> Text:
        async with self._one_at_a_time:
            self._latest.pop(content_type, None)  # at most one text of each format is kept
            began = self._clock()
            pieces, _ = await self._expose(accept)
            text = await asyncio.to_thread(compressed, pieces)
            now = self._clock()
            answer = Text(content_type, text, now + min(MAX_SECONDS, REUSE * (now - began)))
            self._latest[content_type] = answer
            if len(self._latest) > MAX_FORMATS:
                del self._latest[next(iter(self._latest))]
            return answer


def _decompressed(compressed: bytearray) -> Iterator[bytes]:
    inflate = zlib.decompressobj(_GZIP)
    for at in range(0, len(compressed), _PART):
        if part := inflate.decompress(compressed[at : at + _PART]):
            yield part


def gzip_accepted(accept: str) -> bool:
    """Return whether a header ``Accept-Encoding`` names gzip, with a weight that is a number above 0."""
    for entry in accept.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        if name == "gzip":
            weight = next((each.partition("=")[2] for each in parameters if each.partition("=")[0].strip() == "q"), "1")
            return re.fullmatch(r"\s*(0\.0*[1-9]\d*|1(\.0*)?)\s*", weight) is not None
    return False
