"""How many messages went through each stream, and how large they were, without reading a single one of them.

The number is exact: a stream counts its messages. The size of what has been overwritten is nowhere, so it is estimated
while the run goes on: the mean size of what stands in the stream at a moment, for the messages that came since the
moment before.
"""

import asyncio
from typing import NamedTuple

from deviceshare_bus.connection import Connection
from nats.errors import Error as NatsError

SECONDS = 0.2


class Traffic(NamedTuple):
    """What was published to one stream: messages, bytes as the server stores them, and to how many subjects."""

    messages: int
    bytes: int
    subjects: int


class State(NamedTuple):
    """What a stream says of itself: its last sequence, how many messages it holds, and their bytes."""

    last: int
    messages: int
    bytes: int


class StreamMeter:
    """Adds up the traffic of one stream from its states."""

    def __init__(self, begin: State) -> None:
        self._begin = begin
        self._last = begin.last
        self._bytes = 0.0

    def take(self, state: State) -> None:
        """Take a later state in."""
        self._bytes += (state.last - self._last) * self._mean(state)
        self._last = state.last

    def _mean(self, state: State) -> float:
        """Return the mean size of the messages that came since the beginning, as far as they can be told apart."""
        new = state.messages - self._begin.messages
        if new > 0 and state.bytes > self._begin.bytes:
            return (state.bytes - self._begin.bytes) / new
        return state.bytes / state.messages if state.messages else 0.0

    def total(self, state: State) -> Traffic:
        """Return all traffic up to a last state."""
        self.take(state)
        messages = self._last - self._begin.last
        return Traffic(messages, round(self._bytes), max(1, min(messages, state.messages - self._begin.messages)))


class Meters:
    """Meters of several streams."""

    def __init__(self, streams: dict[str, Connection]) -> None:
        """Take the streams' names and where each one is."""
        self._streams = streams
        self._meters: dict[str, StreamMeter] = {}

    async def begin(self) -> None:
        """Count from now on."""
        self._meters = {name: StreamMeter(await self._state(name)) for name in self._streams}

    async def run(self) -> None:
        """Look at the streams again and again, for ever."""
        while True:
            await asyncio.sleep(SECONDS)
            for name, meter in self._meters.items():
                try:
                    meter.take(await self._state(name))
                except (NatsError, TimeoutError, OSError):
                    continue

    async def end(self) -> dict[str, Traffic]:
        """Return what was counted."""
        return {name: meter.total(await self._state(name)) for name, meter in self._meters.items()}

    async def _state(self, name: str) -> State:
        state = (await self._streams[name].jetstream.stream_info(name)).state
        return State(state.last_seq, state.messages, state.bytes)
