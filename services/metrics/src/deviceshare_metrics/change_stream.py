"""The stream of changes: server-sent events for any number of changes, with a bounded amount of data per client.

A client has a position, not a queue: what it has not read yet is computed when it can be sent, each changed node once.
At most :data:`BUFFER` bytes and one event are in the socket's buffer of a client.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web
from deviceshare_bus.web import USER

from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import StreamEnd
from deviceshare_metrics.card_map import CardRows
from deviceshare_metrics.core.visibility import Visibility

log = logging.getLogger("deviceshare.metrics")

MAX_CLIENTS = 64
MAX_OF_USER = 16
"""Clients of one Kubernetes user, so that there is room for others."""
INTERVAL = 0.05
"""Seconds between two events with changes."""
STATUS_INTERVAL = 1.0
KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection."""
SLOW = 10.0
"""Seconds that a client may take to read what is buffered for it, before it is dropped."""
BUFFER = 64 << 10
FAREWELL = 5.0
"""Seconds until the connection of a dropped client is closed, even if it has not read why."""
STREAM_SECONDS = 600.0
"""Seconds after which a stream ends; the client connects again, and its token is reviewed again."""
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}

VisibilityOf = Callable[[web.Request], Awaitable[Visibility]]
"""Returns what the sender of a request sees. Raises :class:`deviceshare_bus.web.Refused`."""


class ChangeStream:
    """Sends changes to clients.

    Args:
        rows: the map, which names no pods.
        status: returns the counts of the cluster that a user sees.
        visibility_of: returns what the sender of a request sees.
    """

    def __init__(
        self, rows: CardRows, status: Callable[[Visibility], Awaitable[api.ClusterStatus]], visibility_of: VisibilityOf
    ) -> None:
        self._rows = rows
        self._status = status
        self._visibility_of = visibility_of
        self._clients: dict[asyncio.Task[None], str] = {}
        """The names of their users, '' without one."""

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._clients)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Send changes until the client leaves or is dropped."""
        visibility = await self._visibility_of(request)
        user = request[USER]
        name = "" if user is None else user.name
        own = sum(each == name for each in self._clients.values()) if name else 0
        if len(self._clients) >= MAX_CLIENTS or own >= MAX_OF_USER:
            clients = f"{MAX_CLIENTS} clients" if own < MAX_OF_USER else f"{MAX_OF_USER} clients of {name}"
            body = msgspec.json.encode(api.ErrorAnswer(error=f"{clients} read the stream of changes"))
            return web.Response(body=body, status=503, content_type="application/json", headers={"Retry-After": "10"})
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        task = asyncio.ensure_future(self._send(response, since, visibility))
        self._clients[task] = name
        try:
            await task
        except TimeoutError:
            await self._drop(request, response)
        except (ConnectionError, asyncio.CancelledError):
            task.cancel()
        finally:
            del self._clients[task]
        return response

    async def close(self) -> None:
        """End all streams."""
        for task in list(self._clients):
            task.cancel()

    async def _send(self, response: web.StreamResponse, position: str, visibility: Visibility) -> None:
        loop = asyncio.get_running_loop()
        last_status, status_due, written = b"", 0.0, loop.time()
        ends = loop.time() + STREAM_SECONDS
        while loop.time() < ends:
            parts = []
            current = await self._rows.refresh()
            if current != position:
                changes = self._rows.changes(position)
                if changes is None:
                    reason = "the position is not known: read /api/v1/cards again"
                    parts.append(event("reset", msgspec.json.encode(StreamEnd(reason=reason))))
                    await self._write(response, parts)
                    return
                parts.append(event("cards", changes, current))
                position = current
            if loop.time() >= status_due:
                status_due = loop.time() + STATUS_INTERVAL
                status = msgspec.json.encode(await self._status(visibility))
                if status != last_status:
                    parts.append(event("status", status))
                    last_status = status
            if not parts and loop.time() >= written + KEEP_ALIVE:
                parts.append(b": no changes\n\n")
            if parts:
                written = loop.time()
                await self._write(response, parts)
            await asyncio.sleep(INTERVAL)

    async def _write(self, response: web.StreamResponse, parts: list[bytes]) -> None:
        async with asyncio.timeout(SLOW):
            await response.write(b"".join(parts))

    async def _drop(self, request: web.Request, response: web.StreamResponse) -> None:
        """Report to a slow client why it is dropped, then close its connection."""
        reason = f"the client did not read for {SLOW:g} seconds"
        log.warning("a client of the stream of changes is dropped", extra={"client": request.remote, "reason": reason})
        try:
            async with asyncio.timeout(FAREWELL):
                await response.write(event("dropped", msgspec.json.encode(StreamEnd(reason=reason))))
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()


def event(name: str, data: bytes, position: str = "") -> bytes:
    """Return one server-sent event; ``data`` is one line of JSON."""
    id_line = f"id: {position}\n".encode() if position else b""
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), id_line, data)
