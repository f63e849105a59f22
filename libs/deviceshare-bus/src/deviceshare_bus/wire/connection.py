"""Connecting to nats-server and staying connected.

Nothing of value waits in the client's buffer: writers learn that an outcome is unknown and read back, readers resume
by sequence.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

import nats.errors
from deviceshare.model import Backoff, ConfigError, describe_error

from deviceshare_bus.wire.client import PENDING_BYTES, Client, Listening, is_denial
from deviceshare_bus.wire.credentials import ANONYMOUS, CA, CERTIFICATE, KEY, SEED, VARIABLES, Credentials
from deviceshare_bus.wire.framing import Listener
from deviceshare_bus.wire.requests import Requests
from deviceshare_bus.wire.tasks import heed_cancellation

log = logging.getLogger("deviceshare.connection")

MAX_PAYLOAD = 8 * 1024 * 1024
"""The least ``max_payload`` of the server in bytes: enough for 1,000 claims on one node."""
BUS = "--bus / DEVICESHARE_BUS"
"""The option that names the bus."""
DENIED_TRIES = 10
"""Connection attempts in a row that the server denies, some 0.1 s apart, before the credentials count as wrong."""
DENIED_SECONDS = 120.0
"""Seconds of denials before credentials count as wrong with which the client has been connected, if they are in a file:
the server may have a new key before the file does."""
UNREACHABLE_INTERVAL = 10.0
"""Seconds between two warnings that the server cannot be reached."""
CLOSING_SECONDS = 2.0
"""Seconds after which a connection is closed without sending what waits: the server does not read."""
RETRY = Backoff(0.1, 0.5)
"""Seconds between two tries while nats-server does not answer."""
T = TypeVar("T")

_REFUSAL = "permissions violation"
"""The error of the server for a message or subscription to which the user has no right; the connection stays."""


class ConnectionEnded(Exception):
    """nats-server ended the connection, and nats-py does not connect again."""


class Connection:
    """A connection to nats-server, with hooks that run when it is restored.

    After a loss it tries to reconnect every 0.1 s, without a limit. Subscriptions survive. Requests in flight fail
    (:class:`~deviceshare_bus.wire.requests.Requests`), and none is sent while the connection is down.

    Final, as :attr:`failure`: the server denies the credentials :data:`DENIED_TRIES` times in a row, or, after a
    connection with credentials in a file, for :data:`DENIED_SECONDS` (ConfigError, which names the option), or ends the
    connection for good (ConnectionEnded). Every follower then raises it.
    """

    def __init__(self, url: str, option: str = BUS, credentials: Credentials = ANONYMOUS) -> None:
        """Take the server's URL, the option that names it in errors, and credentials. Made by :func:`connect`."""
        self.client = Client(credentials)
        self.creates_streams = not credentials.given
        """Whether a service on this connection creates streams that are missing: users of the bus leave that to the
        set-up step, which alone may."""
        self._credentials = credentials
        self.client.requests = self.requests = Requests(self.client)
        self.jetstream = self.client.jetstream(timeout=5.0)
        self.closing = False
        self.losses = 0
        """How often the connection was lost."""
        self.guards: dict[str, object] = {}
        """The streams that are followed on this connection, each with a mark of its follower."""
        self._verified: dict[str, int] = {}
        """:attr:`losses` when the follower of a stream last found that it is still the one that it reads."""
        self.failure: ConfigError | ConnectionEnded | None = None
        """Why the connection cannot be restored."""
        self._url = url
        self._shown_url = without_password(url)
        self._option = option
        self._opening = True
        self._ending: asyncio.Task[None] | None = None
        self._denials = 0
        self._denied_since = 0.0
        self._warn_at = 0.0
        self._refusal_at = 0.0
        self._reconnected: list[Callable[[], None]] = []
        self._doubted: list[Callable[[str], None]] = []
        self._up = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the server can be reached right now."""
        return bool(self.client.is_connected)

    @property
    def server(self) -> str:
        """The id of the connected server, a new one after each start of nats-server."""
        return self.client.server_id

    @property
    def max_payload(self) -> int:
        """The largest message, with its headers, that the connected server takes, in bytes."""
        return int(self.client.max_payload)

    def certificate_ends(self) -> dict[str, float]:
        """Return until when certificates are valid, in unix seconds.

        ``client``: the one in the file of this client; ``server``: the one that nats-server has shown at the latest
        connection. Without TLS there are none.
        """
        ends = {"client": self._credentials.certificate_end(), "server": self.client.server_certificate_end}
        return {name: end for name, end in ends.items() if end is not None}

    def may_write(self, subject: str) -> bool:
        """Return whether sequences of a subject mean what they meant when its stream was read.

        False after a loss of the connection, until the follower of the stream has verified its position. True for a
        stream without a follower.
        """
        stream = subject.partition(".")[0].upper()
        return stream not in self.guards or self._verified.get(stream) == self.losses

    def verified(self, stream: str, losses: int) -> None:
        """Record that a stream is the one that is followed, as of a number of losses of the connection."""
        self._verified[stream] = losses

    def unverified(self, stream: str) -> None:
        """Record that a stream may be another one than is followed, or that another server leads it by now."""
        self._verified.pop(stream, None)
        for hook in self._doubted:
            hook(stream)

    def on_doubt(self, hook: Callable[[str], None]) -> None:
        """Call ``hook`` with the name of a stream when :meth:`unverified` is called."""
        self._doubted.append(hook)

    async def wait_connected(self) -> None:
        """Wait until the server can be reached.

        Raises:
            ConfigError: the server denies the credentials.
            ConnectionEnded: the connection cannot be restored.
        """
        while not self.connected:
            if self.failure is not None:
                raise self.failure
            if self._up.is_set():  # the client notices a loss before it calls the hook
                await asyncio.sleep(0.01)
            else:
                await self._up.wait()

    async def repeat(self, request: Callable[[], Awaitable[T]], failure: str, level: int = logging.DEBUG) -> T:
        """Return the result of a request, repeated with a back-off until it succeeds.

        ``failure``: the message to log at ``level`` after each failure. Raises as :meth:`wait_connected`, and errors of
        the request that are neither NATS errors nor OSError.
        """
        failures = 0
        while True:
            await self.wait_connected()
            try:
                return await request()
            except (nats.errors.Error, OSError) as error:
                log.log(level, "%s: %r", failure, error)
                await asyncio.sleep(RETRY.delay(failures))
                failures += 1

    def on_reconnect(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Call ``hook`` after each reconnect, and when :attr:`failure` is set; returns a function that removes it."""
        self._reconnected.append(hook)
        return lambda: self._reconnected.remove(hook)

    def listen(self, subject: str, listener: Listener) -> Listening:
        """Pass the messages of a subject to a listener, also after a reconnect, until the listening is ended.

        What waits for the reader is bounded by the listener: nothing waits here.
        """
        return self.client.listen(subject, listener)

    async def close(self) -> None:
        """Flush and close within :data:`CLOSING_SECONDS`; requests in flight fail."""
        self.closing = True
        self.requests.lost("the connection was closed")
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await heed_cancellation(self.client.close())
        except TimeoutError:
            log.warning("nats-server does not read: the connection is closed without sending what waits")
            self.client.abort()
        except OSError as error:  # there was no connection to flush
            log.debug("closed a lost connection: %r", error)

    async def open(self, name: str) -> None:
        """Connect under a name, see :func:`connect`."""
        urls = self._url.split(",")
        several = len(urls) > 1
        secured = [url.startswith("tls://") for url in urls]
        if any(secured) and not all(secured):
            raise ConfigError("command line", self._option, self._shown_url, "tls:// in all URLs or in none")
        if all(secured):
            self.client.secured = True
            self._credentials.tls()  # raises
        elif self._credentials.secures:  # nats-py would use them if the server asks, which a third party can prevent
            expected = f"tls:// in all URLs, since --{CA}, --{CERTIFICATE} or --{KEY} is given"
            raise ConfigError("command line", self._option, self._shown_url, expected)
        credentials = self._credentials.connect_options()
        for failures in count():
            try:
                await heed_cancellation(
                    self.client.connect(
                        urls,
                        name=name,
                        max_reconnect_attempts=-1,
                        reconnect_time_wait=0.1,  # type: ignore[arg-type]  # seconds, which may be parts of one
                        # Of several servers one may be silent while the others serve.
                        connect_timeout=2 if several else 5,
                        ping_interval=1 if several else 10,
                        max_outstanding_pings=2,
                        pending_size=PENDING_BYTES,
                        allow_reconnect=True,
                        reconnected_cb=self._came_back,
                        disconnected_cb=self._was_lost,
                        closed_cb=self._was_closed,
                        error_cb=self._failed,
                        **credentials,
                    )
                )
                break
            except OSError as error:
                self._warn_unreachable(error)
                await asyncio.sleep(RETRY.delay(failures))
            except nats.errors.Error as error:
                expected = f"a URL such as nats://127.0.0.1:4222 ({describe_error(error)})"
                raise ConfigError("command line", self._option, self._shown_url, expected) from error
            except BaseException:
                await self.close()
                raise
        self._opening = False
        self._denials = 0
        if self.max_payload < MAX_PAYLOAD:
            limit = self.max_payload
            await self.close()
            expected = f"at least {MAX_PAYLOAD} (8MB), set in the server's configuration: 1,000 claims are one message"
            raise ConfigError(f"nats-server {self._shown_url}", "max_payload", limit, expected)
        self._up.set()
        self.listen(self.requests.subject, self.requests.answered)

    async def _came_back(self) -> None:
        log.info("connected again", extra={"url": self._shown_url})
        if self.max_payload < MAX_PAYLOAD:
            log.error("max_payload of nats-server is %d, less than %d", self.max_payload, MAX_PAYLOAD)
        self._denials = 0
        self._notify()

    async def _was_lost(self) -> None:
        if not self.closing:
            log.warning("connection lost", extra={"url": self._shown_url})
        self.losses += 1
        self._up.clear()
        self.client.drop_pending()
        self.requests.lost()

    async def _was_closed(self) -> None:
        if not self.closing:
            error = self.client.last_error
            self._give_up(self._denied(error) if _is_denial(error) else ConnectionEnded(f"nats-server: {error}"))

    async def _failed(self, error: Exception) -> None:
        """Hear of an error of nats-py. To raise one here ends its ``connect``; its reconnecting ends by closing."""
        log.debug("nats: %r", error)
        if not _is_denial(error):
            if not self.connected:
                self._warn_unreachable(error)
            elif _REFUSAL in str(error).lower():
                self._report_refusal(error)
            return
        now = asyncio.get_running_loop().time()
        if not self._denials:
            self._denied_since = now
        self._denials += 1
        if self._denials < DENIED_TRIES or self.failure is not None:
            return
        if self._credentials.given and not self._opening and now - self._denied_since < DENIED_SECONDS:
            self._warn_unreachable(error)
            return
        self._give_up(self._denied(error))
        if self._opening:
            raise self._denied(error)
        self._ending = asyncio.create_task(self.close())

    def _give_up(self, failure: ConfigError | ConnectionEnded) -> None:
        self.failure = failure
        self._notify()

    def _notify(self) -> None:
        self._up.set()
        for hook in list(self._reconnected):
            hook()

    def _denied(self, error: Exception | None) -> ConfigError:
        option, value = self._option, self._shown_url
        if self._credentials.given:
            option, value = f"--{SEED} / {VARIABLES[SEED]}", self._credentials.seed
        return ConfigError("command line", option, value, f"credentials that nats-server accepts ({error})")

    def _report_refusal(self, error: Exception) -> None:
        """Log that the user has no right to what it tried: a request of its own then has no answer."""
        now = asyncio.get_running_loop().time()
        if now >= self._refusal_at:
            self._refusal_at = now + UNREACHABLE_INTERVAL
            log.error("nats-server denies what this user of the bus has no right to: %s", error)

    def _warn_unreachable(self, error: Exception) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._warn_at:
            self._warn_at = now + UNREACHABLE_INTERVAL
            log.warning("waiting for %s: %s", self._shown_url, describe_error(error))


def _is_denial(error: Exception | None) -> bool:
    return isinstance(error, nats.errors.AuthorizationError) or is_denial(str(error))


def without_password(url: str) -> str:
    """Return URLs as they may be shown: user and password, or token, replaced by ``…``."""
    return ",".join(map(_without_password, url.split(",")))


def _without_password(url: str) -> str:
    scheme, mark, rest = url.rpartition("://")
    return f"{scheme}{mark}…@{rest.rpartition('@')[2]}" if "@" in rest else url


async def connect(url: str, name: str, option: str = BUS, *, credentials: Credentials = ANONYMOUS) -> Connection:
    """Connect under a name; wait without a time limit until the server can be reached.

    Args:
        url: ``nats://[USER:PASSWORD@]HOST:PORT`` or ``tls://HOST:PORT``; several servers of a cluster separated by
            commas. With ``tls`` a server that offers no TLS is not connected to.
        name: shown by the server's monitoring.
        option: the option that the URL came from, for errors.
        credentials: the files of the user and of TLS.

    Raises:
        ConfigError: the URL or a file is not valid, or the server denied the credentials :data:`DENIED_TRIES` times in
            a row.
    """
    connection = Connection(url, option, credentials)
    await connection.open(name)
    return connection
