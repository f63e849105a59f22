"""Connecting to a nats-server: for ever, and without losing what matters.

Nothing of value waits in the client's buffer: writers learn that an outcome is unknown and read back, readers resume
by sequence.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import nats.errors
from deviceshare.model import Backoff
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from deviceshare_bus.requests import Requests
from deviceshare_bus.tasks import heed_cancellation

log = logging.getLogger("deviceshare.connection")

MAX_PAYLOAD = 8 * 1024 * 1024
"""What the server must allow: 1,000 claims on one node."""

PENDING_MESSAGES = 1 << 20
PENDING_BYTES = 1 << 27
RETRY = Backoff(0.1, 2.0)
"""Seconds between two tries while nats-server does not answer."""
Handler = Callable[[Msg], Awaitable[None]]


_STORED = (b"NATS/1.0\r\nNats-Expected-", b"NATS/1.0\r\nNats-Batch-")
"""How the headers begin with which writers sent what a stream keeps."""
_ANSWER = b"\r\nNats-Sequence: "
"""Where somebody asked for one message: the server says which it is."""


class _Client(Client):
    """nats-py's client, with requests that do not lose a cancellation.

    It also leaves the headers unread that were meant for the server: they come with every message of a stream.
    """

    requests: Requests

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 5.0,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """Send a request and return the answer, as :meth:`Requests.request`; JetStream's API calls this."""
        return await self.requests.request(subject, payload, timeout, headers)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        return await heed_cancellation(super()._flush_pending(force_flush))

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        if headers and headers.startswith(_STORED) and _ANSWER not in headers:
            return None
        read: dict[str, str] | None = await super()._process_headers(headers)
        return read


class Connection:
    """A NATS connection with hooks for those who must act when it comes back."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.requests = client.requests
        self.jetstream = client.jetstream(timeout=5.0)
        self._reconnected: list[Callable[[], None]] = []
        self._disconnected: list[Callable[[], None]] = []
        self.closing = False
        self._up = asyncio.Event()
        self._up.set()

    @property
    def connected(self) -> bool:
        """Whether the server can be reached right now."""
        return bool(self.client.is_connected)

    async def wait_connected(self) -> None:
        """Wait until the server can be reached."""
        while not self.connected:
            if self._up.is_set():  # the client knows of a loss a moment before it says so
                await asyncio.sleep(0.01)
            else:
                await self._up.wait()

    def on_reconnect(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Call ``hook`` after each reconnect; the returned function takes it back."""
        self._reconnected.append(hook)
        return lambda: self._reconnected.remove(hook)

    def on_disconnect(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Call ``hook`` when the connection is lost; the returned function takes it back."""
        self._disconnected.append(hook)
        return lambda: self._disconnected.remove(hook)

    async def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Subscribe. Messages beyond :data:`PENDING_MESSAGES` or :data:`PENDING_BYTES` that wait are dropped.

        The flow control of a follower and the limits of writers are lower.
        """
        return await self.client.subscribe(
            subject, cb=handler, pending_msgs_limit=PENDING_MESSAGES, pending_bytes_limit=PENDING_BYTES
        )

    async def close(self) -> None:
        """Flush and close."""
        self.closing = True
        self.requests.lost("the connection was closed")
        await heed_cancellation(self.client.close())


async def connect(url: str, name: str) -> Connection:
    """Connect, waiting for the server as long as it takes."""
    connection: Connection | None = None

    async def reconnected() -> None:
        log.info("connected again", extra={"url": url})
        if connection is not None:
            connection._up.set()
            for hook in list(connection._reconnected):
                hook()

    async def disconnected() -> None:
        if connection is None or not connection.closing:
            log.warning("connection lost", extra={"url": url})
        if connection is not None:
            connection._up.clear()
            connection.requests.lost()
            for hook in list(connection._disconnected):
                hook()

    async def failed(error: Exception) -> None:
        log.debug("nats: %r", error)

    for failures in count():
        client = _Client()
        try:
            await heed_cancellation(
                client.connect(
                    url,
                    name=name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.1,  # type: ignore[arg-type]  # seconds, which may be parts of one
                    connect_timeout=5,
                    ping_interval=10,
                    max_outstanding_pings=2,
                    pending_size=64 * 1024 * 1024,
                    allow_reconnect=True,
                    reconnected_cb=reconnected,
                    disconnected_cb=disconnected,
                    error_cb=failed,
                )
            )
        except (OSError, nats.errors.Error) as error:
            log.warning("cannot connect to %s: %s", url, error or type(error).__name__)
            await asyncio.sleep(RETRY.delay(failures))
        except BaseException:
            await client.close()
            raise
        else:
            break
    client.requests = Requests(client)
    connection = Connection(client)
    await connection.subscribe(connection.requests.subject, connection.requests.answered)
    return connection
