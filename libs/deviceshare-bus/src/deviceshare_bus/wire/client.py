"""nats-py's client with framing of our own (:mod:`.framing`) for what every pod needs.

nats-py connects, secures the connection, authenticates, reconnects, pings, and sends subscriptions again. When it is
about to read, :mod:`.connection_reader` takes over: messages of :meth:`Client.listen` go to their listeners, without a
task, everything else to nats-py, in order. What :meth:`Client.send` is given waits in nats-py's buffer, and is written
once in a turn of the event loop.

A connection without TCP (WebSocket) is read by nats-py, with the same listeners.
"""

import asyncio
import json
import logging
import ssl
from importlib.metadata import version
from typing import Any
from urllib.parse import ParseResult

import nats.errors
from deviceshare.model import ConfigError
from nats.aio.client import PING_PROTO, Srv
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport

from deviceshare_bus.wire.connection_reader import ConnectionReader
from deviceshare_bus.wire.credentials import ANONYMOUS, Credentials
from deviceshare_bus.wire.framing import Listener, Malformed, Other, Received, encode_headers, publication
from deviceshare_bus.wire.requests import Requests
from deviceshare_bus.wire.tasks import heed_cancellation
from deviceshare_bus.wire.transport import NatsTransport

log = logging.getLogger("deviceshare.connection")

PENDING_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for a server that does not read; beyond them nothing is sent, and the sender hears of it."""
_DENIALS = ("authorization violation", "authentication expired", "authentication revoked")
"""Errors with which the server denies a connection, or ends one that it had accepted."""
_PRIVATE = (
    "_connect_command",
    "_connect_to_server",
    "_error_cb",
    "_flush_pending",
    "_inbox_prefix",
    "_max_payload",
    "_pending",
    "_pending_data_size",
    "_pongs",
    "_process_err",
    "_process_info",
    "_process_msg",
    "_process_op_err",
    "_process_ping",
    "_process_pong",
    "_public_nkey",
    "_read_loop",
    "_send_ping",
    "_server_info",
    "_sid",
    "_status",
    "_subs",
    "_transport",
)
"""Private names of nats-py's client that are used here, and nowhere else (``tests/bus/test_private_names.py``)."""


class Client(NatsClient):
    """A client of nats-server; :attr:`requests` is set by the connection that it belongs to."""

    requests: Requests

    def __init__(self, credentials: Credentials = ANONYMOUS) -> None:
        """Raise ConfigError if the installed nats-py lacks a private name that is used here."""
        super().__init__()
        _require_private_names(self, TcpTransport())
        self.read_interval = 0.0
        """Seconds for which what arrives is left in the socket after a read of little, so that it becomes one read:
        a process that is woken up for every message needs several times the CPU time of one that reads some at once."""
        self.secured = False
        """Whether a server that offers no TLS is not connected to."""
        self._credentials = credentials
        if credentials.inbox:
            self._inbox_prefix = bytearray(credentials.inbox.encode())
        self._listeners: dict[int, Listener] = {}
        """By the number of the subscription; those of nats-py have none."""
        self._writing = False
        """Whether what waits will be written in this turn of the event loop."""
        self._held_back = False
        """Whether the server does not read as fast as it is sent to."""

    # What publishers, followers and requests use

    def send(self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b"") -> None:
        """Send a message in this turn of the event loop; ``head`` as :func:`.framing.encode_headers` returns it.

        Raises:
            nats.errors.Error: it is not sent: the connection is down, the message is larger than the server takes, too
                much waits for the server, or the subject is not valid.
        """
        if self._status != NatsClient.CONNECTED:
            raise nats.errors.ConnectionClosedError if self.is_closed else nats.errors.ConnectionReconnectingError
        if len(head) + len(data) > self._max_payload:
            raise nats.errors.MaxPayloadError
        if self.waiting_bytes > PENDING_BYTES:
            raise nats.errors.OutboundBufferLimitError
        self._write(publication(subject, reply, head, data))

    @property
    def server_id(self) -> str:
        """The id of the connected server, a new one after each start of nats-server; '' before the first connection."""
        return str(self._server_info.get("server_id", ""))

    @property
    def server_certificate_end(self) -> float | None:
        """Until when the certificate is valid that nats-server has shown, in unix seconds; None without TLS."""
        return self._transport.certificate_end if isinstance(self._transport, NatsTransport) else None

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait for the server, here and in the transport."""
        waiting = int(self._pending_data_size)
        if self._held_back and isinstance(
            self._transport, NatsTransport
        ):  # otherwise the transport has next to nothing
            waiting += self._transport.stream.get_write_buffer_size()
        return waiting

    def abort(self) -> None:
        """Close the connection without sending what waits."""
        if isinstance(self._transport, NatsTransport):
            self._transport.stream.abort()

    def listen(self, subject: str, listener: Listener) -> "Listening":
        """Subscribe; also after each reconnect, until :meth:`Listening.end`.

        Raises:
            nats.errors.Error: the client is closed, or the subject is not valid.
        """
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        publication(subject, "", b"", b"")  # raises
        self._sid += 1
        self._subs[self._sid] = Subscription(self, self._sid, subject)
        self._listeners[self._sid] = listener
        if self._status == NatsClient.CONNECTED:  # otherwise nats-py sends it when it has connected
            self._write(f"SUB {subject} {self._sid}\r\n".encode())
        return Listening(self, self._sid)

    def silence(self, sid: int) -> None:
        """End a subscription of :meth:`listen`."""
        if self._listeners.pop(sid, None) is not None:
            self._subs.pop(sid, None)
            if self._status == NatsClient.CONNECTED:
                self._write(f"UNSUB {sid}\r\n".encode())

    def drop_pending(self) -> None:
        """Forget what was not sent before the connection was lost."""
        self._pending.clear()
        self._pending_data_size = 0
        self._held_back = False

    def _write(self, frame: bytes) -> None:
        self._pending.append(frame)
        self._pending_data_size += len(frame)
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self.write_pending)

    def write_pending(self) -> None:
        """Pass what waits to the transport, unless the server is behind."""
        self._writing = False
        transport = self._transport
        if not self._pending or self._held_back or self._status != NatsClient.CONNECTED:
            return
        if not isinstance(transport, NatsTransport):
            asyncio.get_running_loop().create_task(self._flush_pending())
            return
        pending, self._pending, self._pending_data_size = self._pending, [], 0
        try:
            transport.write(b"".join(pending))
        except OSError as error:  # as nats-py does
            log.debug("cannot write to nats-server: %r", error)
            asyncio.get_running_loop().create_task(self._process_op_err(error))

    def hold_back(self, behind: bool) -> None:
        """Hear that the server does not read, or reads again."""
        self._held_back = behind
        if not behind:
            self.write_pending()

    def failed(self, error: Exception) -> None:
        """Report what a listener has raised."""
        log.error("a message cannot be handled: %r", error, exc_info=error)

    # What nats-py calls

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 5.0,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """Send a request and return the answer, as :meth:`Requests.request`; JetStream's API calls this."""
        answer = await self.requests.request(subject, payload, timeout, encode_headers(headers or {}))
        return Msg(self, answer.subject, answer.reply, answer.data, answer.headers or None)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The TLS settings of one connection, from the files as they are now. nats-py tries again after an OSError."""
        try:
            return self._credentials.tls()
        except ConfigError as error:
            raise ConnectionError(str(error)) from error

    def _connect_command(self) -> bytes:
        """Return what the client says first, with the key that the file has now."""
        if self.secured and not (isinstance(self._transport, NatsTransport) and self._transport.encrypted):
            raise ConnectionError("nats-server offers no TLS, which the URL tls:// requires")
        if self._credentials.given and isinstance(self._transport, NatsTransport):
            self._transport.require_known_server(self._credentials.seed)
        try:
            if self._credentials.seed and (public := self._credentials.public_key()):
                self._public_nkey = public
        except ConfigError as error:
            raise ConnectionError(str(error)) from error
        return super()._connect_command()

    async def _connect_to_server(self, s: Srv) -> None:
        if (task := asyncio.current_task()) is not None and task.cancelling():  # nats-py lost the cancellation
            raise asyncio.CancelledError
        if self._transport:  # nats-py leaves it open when the server denies a reconnect
            self._transport.close()
        await self._resolve(s.uri)
        await super()._connect_to_server(s)
        if type(self._transport) is TcpTransport:
            self._transport = NatsTransport(self._transport)

    async def _resolve(self, uri: ParseResult) -> None:
        """Wait for the server's name, which is then connected to. Raises TimeoutError, gaierror.

        uvloop reports an error of DNS that comes after the time for a connection; not that of a name alone.
        """
        found = asyncio.get_running_loop().getaddrinfo(uri.hostname, uri.port)
        try:
            await asyncio.wait_for(found, self.options["connect_timeout"])
        except TimeoutError as error:
            raise TimeoutError(f"DNS does not resolve {uri.hostname} in time") from error

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """Ping after what waits: nats-py writes a ping at once, and a flush would end too early."""
        self._pongs.append(asyncio.get_running_loop().create_future() if future is None else future)
        self._write(PING_PROTO)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        return await heed_cancellation(super()._flush_pending(force_flush))

    async def _read_loop(self) -> None:
        """Read until the connection ends, as nats-py's method of this name."""
        transport = self._transport
        if not isinstance(transport, NatsTransport):
            await super()._read_loop()
            return
        reader = ConnectionReader(self, self._listeners, transport)
        try:
            await reader.run()
        except asyncio.CancelledError:
            return
        except Malformed as error:
            log.error("nats-server sent what is not its protocol: %s", error)
            await self._process_op_err(nats.errors.ProtocolError())
        except (OSError, nats.errors.UnexpectedEOF) as error:
            await self._error_cb(error)
            await self._process_op_err(error)
        except Exception as error:  # nats-py would stop reading without a report
            log.exception("a line of nats-server cannot be handled")
            await self._process_op_err(error)
        finally:
            reader.ended = True

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        listener = self._listeners.get(sid)
        if listener is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            listener(Received(subject.decode("utf-8", "replace"), reply.decode(), data, headers or b""))
        except Exception as error:
            self.failed(error)

    async def take(self, other: Other) -> None:
        """Pass a line or a message of the server to nats-py."""
        line = other.line
        if other.sid:
            await self._process_msg(other.sid, other.subject, other.reply, other.data, other.head)
        elif line.startswith(b"PING"):
            await self._process_ping()
        elif line.startswith(b"PONG"):
            await self._process_pong()
        elif line.startswith(b"-ERR"):
            error = line[4:].strip().decode("utf-8", "replace").lower()
            if self._credentials.given and is_denial(error):
                # nats-py would close for good. The file may have the new key.
                await self._process_op_err(nats.errors.AuthorizationError())
            else:
                await self._process_err(error)
        elif line.startswith(b"INFO"):
            await self._process_info(json.loads(line[4:]))


def is_denial(error: str) -> bool:
    """Return whether the server denies the credentials: another try with the same ones changes nothing."""
    return any(denial in error.lower() for denial in _DENIALS)


def _require_private_names(client: NatsClient, transport: TcpTransport) -> None:
    missing = [name for name in _PRIVATE if not hasattr(client, name)]
    if not hasattr(transport, "_io_writer"):
        missing.append("_io_writer")
    if missing:
        raise ConfigError("Python packages", "nats-py", version("nats-py"), f"2.16, which has {', '.join(missing)}")


class Listening:
    """A subscription of :meth:`Client.listen`."""

    def __init__(self, client: Client, sid: int) -> None:
        self._client, self._sid = client, sid

    def end(self) -> None:
        """Hear nothing any more."""
        self._client.silence(self._sid)
