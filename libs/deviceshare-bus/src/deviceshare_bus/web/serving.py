"""Serving HTTP within limits: of connections, of their times and of bodies; and the headers of every answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from deviceshare.model import ConfigError

from deviceshare_bus.wire.tasks import end

MAX_CONNECTIONS = 512
"""Connections of a port. A further one closes the oldest without a request in progress."""
IDLE_SECONDS = 10.0
"""Seconds until a connection without a complete request is closed: a new one, or one that waits for the next."""
STALLED_SECONDS = 20.0
"""Seconds after which a client that does not read its answer is disconnected."""
LINGER_SECONDS = 2.0
"""Seconds for which the rest of a body that is not read is awaited."""
MAX_UNREAD_BYTES = 1 << 27
"""Bytes of answers that wait for clients to read them, of all connections; then a large answer is refused."""
LARGE_BYTES = 1 << 16
"""Bytes of an answer that counts as large."""
MAX_BODY = 16 << 10
"""Bytes of a body, at most."""
BODY_SECONDS = 5.0
"""Seconds in which a body must arrive."""
MAX_HEADERS = 64
"""Header lines of a request, each of at most 8,190 bytes."""
_SWEEP_SECONDS = 1.0
_REFUSE_SECONDS = 0.05

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer that does not set its own."""


class Serving:
    """A running server. Connections are closed by :class:`_Connections`."""

    def __init__(self, runner: web.AppRunner, listening: asyncio.Server, sweeping: asyncio.Task[None]) -> None:
        self._runner = runner
        self._listening = listening
        self._sweeping = sweeping
        self.addresses: list[tuple[str, int]] = [socket.getsockname()[:2] for socket in listening.sockets]
        """Addresses and ports that it listens on."""

    @property
    def connections(self) -> int:
        """The number of connections."""
        server = self._runner.server
        return len(server.connections) if server is not None else 0

    async def cleanup(self) -> None:
        """Close all connections and stop."""
        self._listening.close()
        await end(self._sweeping)
        await self._runner.cleanup()


async def serve(app: web.Application, address: str, port: int, option: str = "--metrics-port") -> Serving:
    """Serve until the result is cleaned up.

    Raises:
        ConfigError: the address, which ``option`` sets, is in use or not available.
    """
    connections = _Connections()
    app.middlewares.insert(0, connections.middleware)
    app.on_response_prepare.append(_add_headers)
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS, max_headers=MAX_HEADERS,
    )  # fmt: skip
    await runner.setup()
    server = runner.server
    assert server is not None

    def accept() -> web.RequestHandler:
        handler = server()
        connections.add(handler)
        return handler

    try:
        listening = await asyncio.get_running_loop().create_server(accept, address, port, backlog=1024)
    except OSError as error:
        await runner.cleanup()
        expected = f"an address that can be listened on ({error.strerror})"
        raise ConfigError("HTTP", option, f"{address}:{port}", expected) from error
    return Serving(runner, listening, asyncio.create_task(connections.sweep()))


async def body_of(request: web.Request) -> Mapping[str, str]:
    """Return the fields of a form. Raises HTTPException if it is too large, too slow or not valid."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(text="expected a form")
    if (request.content_length or 0) > MAX_BODY:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY, request.content_length or 0)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            fields = await request.post()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body took more than {BODY_SECONDS:g} seconds") from None
    except (web.RequestPayloadError, UnicodeError, LookupError):  # a wrong encoding, no text, an unknown charset
        raise web.HTTPBadRequest(text="the body is not text in its encoding and charset") from None
    return {name: value for name, value in fields.items() if isinstance(value, str)}


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "deviceshare"


class _Connections:
    """The connections of a port, the oldest first."""

    def __init__(self) -> None:
        self._handlers: dict[web.RequestHandler, None] = {}
        self._working: dict[web.RequestHandler, int] = {}
        """Requests in progress by their connections."""
        self._stalled: dict[web.RequestHandler, tuple[int, float]] = {}
        """Bytes that wait for the client, and since when their number is the same."""
        self.middleware: Any = self._make_middleware()

    def add(self, handler: web.RequestHandler) -> None:
        """Add a connection that is being accepted, and close the oldest idle ones beyond the limit."""
        self._handlers[handler] = None
        if len(self._handlers) <= MAX_CONNECTIONS:
            return
        for oldest in list(self._handlers):
            if oldest is not handler and not self._is_busy(oldest):
                self._close(oldest)
                return
        # Every connection has a request in progress. The new one has no transport yet.
        asyncio.get_running_loop().call_later(_REFUSE_SECONDS, self._close, handler)

    async def sweep(self) -> None:
        """Forget connections that are closed, and close those whose clients do not read, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            for handler in list(self._handlers):
                transport = handler.transport
                if transport is None or transport.is_closing():
                    self._handlers.pop(handler, None)
                    self._stalled.pop(handler, None)
                    continue
                waiting = transport.get_write_buffer_size()
                before, since = self._stalled.get(handler, (0, now))
                if not waiting:
                    self._stalled.pop(handler, None)
                elif waiting != before:
                    self._stalled[handler] = (waiting, now)
                elif now - since >= STALLED_SECONDS:
                    self._close(handler)

    def _close(self, handler: web.RequestHandler) -> None:
        self._handlers.pop(handler, None)
        self._stalled.pop(handler, None)
        if (transport := handler.transport) is not None:
            transport.abort()

    def _is_busy(self, handler: web.RequestHandler) -> bool:
        transport = handler.transport
        return handler in self._working or (transport is not None and transport.get_write_buffer_size() > 0)

    def _has_room(self, response: web.StreamResponse) -> bool:
        """Return whether an answer may be sent at once; one that is streamed waits for its client."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) < LARGE_BYTES:
            return True
        transports = (handler.transport for handler in self._handlers)
        unread = sum(transport.get_write_buffer_size() for transport in transports if transport is not None)
        return not unread or unread + len(body) <= MAX_UNREAD_BYTES

    def _make_middleware(self) -> Any:
        @web.middleware
        async def count(request: web.Request, handler: Any) -> Any:
            protocol = request.protocol
            self._working[protocol] = self._working.get(protocol, 0) + 1
            try:
                response = await handler(request)
                if self._has_room(response):
                    return response
                return web.Response(status=503, text="too many answers are not read", headers={"Retry-After": "5"})
            finally:
                self._working[protocol] -= 1
                if not self._working[protocol]:
                    del self._working[protocol]

        return count
