"""Watching the streams that a service does not follow: they exist, and those that it writes still hold its messages."""

import asyncio
import logging
from collections.abc import Callable, Collection

from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.follower import CHECK, BusWiped
from deviceshare_bus.streams.streamstate import StreamState, stream_state
from deviceshare_bus.wire.connection import Connection

log = logging.getLogger("deviceshare.streams")


class StreamWatch:
    """Checks every second that all streams exist, and creates those that are missing if the bus has no users.

    On a bus with users only the set-up step may create streams: services wait for it.

    A follower checks its own stream. Of the others, those in :attr:`rewritten` hold what the service must write again
    if it is lost: it then starts again, as after a loss of a stream that it follows.
    """

    def __init__(self, connection: Connection, replicas: int, hold: float) -> None:
        self._connection = connection
        self._replicas = replicas
        self._hold = hold
        self._known: dict[Stream, StreamState] = {}
        self.rewritten: dict[Stream, Callable[[], bool]] = {}
        """By stream, whether the service has messages there that do not expire: the stream is not empty then."""
        self.obstacle = ""
        """Which stream does not exist, '' if all do."""

    async def run(self, followed: Collection[str]) -> None:
        """Watch the streams that are not followed until cancelled. Raises BusWiped."""
        waiting_for: list[str] = []
        while True:
            missing: list[str] = []
            for stream in Stream:
                if stream in followed or not self._connection.connected:
                    continue
                try:
                    state = await stream_state(self._connection, stream)
                except NotFoundError:
                    missing.append(stream)
                except (NatsError, TimeoutError, OSError) as error:
                    log.debug("no state of stream %s: %r", stream, error)
                else:
                    self._check(stream, state)
            self.obstacle = f"stream {', '.join(missing)} does not exist" if missing else ""
            if missing and self._connection.creates_streams:
                await self._create(missing)
            elif missing != waiting_for:
                waiting_for = missing
                if missing:
                    log.warning("stream %s does not exist: waiting for the set-up step", ", ".join(missing))
            await asyncio.sleep(CHECK)

    def _check(self, stream: Stream, state: StreamState) -> None:
        known = self._known.get(stream)
        if known is not None and known.epoch == state.epoch and state.led_since < known.led_since:
            return  # a server that was suspended: another one leads the stream by now
        self._known[stream] = state
        if known is None or stream not in self.rewritten:
            return
        emptied = known.messages and not state.messages and self.rewritten[stream]()
        if known.epoch != state.epoch or state.last < known.last or emptied:
            raise BusWiped(f"stream {stream} has lost the messages of this service")

    async def _create(self, missing: list[str]) -> None:
        log.warning("stream %s does not exist: creating it", ", ".join(missing))
        try:
            await make_streams(self._connection, self._replicas, self._hold)
        except (NatsError, TimeoutError, OSError) as error:
            log.warning("cannot create the streams: %r", error)
