"""The running service: five streams into one view, one site over it."""

import asyncio
import logging
import time

import msgspec
from deviceshare_bus.service import Context
from deviceshare_bus.setup import DAY
from deviceshare_bus.subjects import Stream

from deviceshare_metrics.server import Site, serve
from deviceshare_metrics.state_store import StateStore, UnknownSubjectError

log = logging.getLogger("deviceshare.metrics")

REMEMBERED_PODS = 100_000
"""How many pods that are gone can still be explained."""
FORGET_INTERVAL = 60.0
CHUNK = 1000
"""Messages taken in before others have their turn."""


async def main(context: Context) -> None:
    """Read and serve until cancelled."""
    await Reader(context).run()


class Reader:
    """Follows all streams into a view."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.store = StateStore()
        self._changed = time.monotonic()
        self._reading = set(Stream)
        """Streams whose end has not been reached yet."""

    async def run(self) -> None:
        """Read and serve until cancelled."""
        context, options, store = self._context, self._context.options, self.store
        context.detail = lambda: {"nodes": len(store.nodes), "pods": len(store.pods)}
        site = Site(
            store,
            connected=lambda: context.connection.connected,
            ready=lambda: not self._reading,
            quiet=lambda: time.monotonic() - self._changed,
        )
        runner = await serve(site.app(), options.metrics_address, options.metrics_port)
        log.info("serving", extra={"addresses": [f"http://{host}:{port}" for host, port, *_ in runner.addresses]})
        try:
            async with asyncio.TaskGroup() as group:
                for stream in Stream:
                    group.create_task(self._read(stream))
                group.create_task(self._forget())
        finally:
            await runner.cleanup()

    async def _read(self, stream: Stream) -> None:
        async for batch in self._context.follow(stream, history=stream == Stream.EVENT):
            for number, message in enumerate(batch.messages, 1):
                try:
                    self.store.apply(message.subject, message.data)
                except (msgspec.MsgspecError, UnknownSubjectError) as error:
                    # It comes back as an event, and is counted there with what the other readers report.
                    self._context.events.quarantine(stream, message, error)
                if not number % CHUNK:
                    await asyncio.sleep(0)
            if batch.messages and stream is not Stream.EVENT:
                self._changed = time.monotonic()
            if batch.caught_up:
                self._reading.discard(stream)

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET_INTERVAL)
            if not self._reading:
                self.store.forget(time.time() - DAY, REMEMBERED_PODS)
