"""Number and size of the messages of each stream, measured without reading the messages.

The number is exact, from the stream's sequence. The size of overwritten messages is unknown; it is estimated at regular
intervals as the mean size of the messages in the stream, for each message published since the previous sample.
"""

import asyncio
from typing import NamedTuple

from deviceshare_bus.wire.connection import Connection
from nats.errors import Error as NatsError
from nats.js.api import StreamState

SECONDS = 0.2
"""Interval between two samples."""


class Traffic(NamedTuple):
    """The traffic of one stream: messages, stored bytes, and number of subjects."""

    messages: int
    bytes: int
    subjects: int


class StreamMeter:
    """Computes the traffic of one stream from samples of its state."""

    def __init__(self, begin: StreamState) -> None:
        self._begin = begin
        self._last = begin.last_seq
        self._bytes = 0.0

    def take(self, state: StreamState) -> None:
        """Add a sample."""
        self._bytes += (state.last_seq - self._last) * self._mean(state)
        self._last = state.last_seq

    def _mean(self, state: StreamState) -> float:
        """Return the mean size of the messages since the beginning, or of all if no message was added."""
        new = state.messages - self._begin.messages
        if new > 0 and state.bytes > self._begin.bytes:
            return (state.bytes - self._begin.bytes) / new
        return state.bytes / state.messages if state.messages else 0.0

    def total(self, state: StreamState) -> Traffic:
        """Return all traffic up to a last sample."""
        self.take(state)
        messages = self._last - self._begin.last_seq
        return Traffic(messages, round(self._bytes), max(1, min(messages, state.messages - self._begin.messages)))


class Meters:
    """Meters of several streams."""

    def __init__(self, streams: dict[str, Connection]) -> None:
        """``streams``: the connection for each stream name."""
        self._streams = streams
        self._meters: dict[str, StreamMeter] = {}

    async def begin(self) -> None:
        """Take the first samples."""
        self._meters = {name: StreamMeter(await self._state(name)) for name in self._streams}

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await asyncio.sleep(SECONDS)
            for name, meter in self._meters.items():
                try:
                    meter.take(await self._state(name))
                except (NatsError, TimeoutError, OSError):
                    continue

    async def end(self) -> dict[str, Traffic]:
        """Take the last samples and return the traffic."""
        return {name: meter.total(await self._state(name)) for name, meter in self._meters.items()}

    async def _state(self, name: str) -> StreamState:
        return (await self._streams[name].jetstream.stream_info(name)).state
