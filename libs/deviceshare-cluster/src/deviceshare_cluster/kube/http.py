"""HTTP/1.1 for short requests: keep-alive connections, whole bodies in and out.

A request of aiohttp takes several times the CPU of one of these, and most requests of the binder are one Binding with
an answer that nobody reads. Watches, and API servers behind a proxy, use aiohttp.
"""

import asyncio
import ssl
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, cast
from urllib.parse import urlsplit

IDLE_SECONDS = 15.0
"""Seconds after which an idle connection is not used again, long before the server closes it."""
MOST_HEAD = 64 * 1024
"""The largest head of an answer, in bytes."""
_END = b"\r\n\r\n"
_NO_BODY = (204, 304)


class HttpError(ConnectionError):
    """The connection was lost, or the answer is not HTTP/1.1."""


class Unsent(HttpError):
    """The server closed an idle connection when the request was sent: it has not begun to answer."""


class Answer(NamedTuple):
    """The status code and the body of an answer."""

    status: int
    body: bytes


class _Head(NamedTuple):
    status: int
    length: int | None
    """The length of the body in bytes, None if it is not known before its end."""
    chunked: bool
    closes: bool
    """Whether the server closes the connection after this answer."""


class AnswerParser:
    """Finds the answers in the bytes that a server sends."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._chunks: list[bytes] = []
        self._left = 0
        """Bytes that are missing of the current chunk, with its end of line; 0: the next line is its length."""
        self._trailers = False
        self.closes = False
        """Whether the connection ends with the last answer."""

    @property
    def began(self) -> bool:
        """Whether a part of an answer has arrived."""
        return bool(self._buffer) or self._head is not None

    def feed(self, data: bytes) -> Answer | None:
        """Take the next bytes; return the answer if it is complete. Raises HttpError."""
        self._buffer += data
        while self._head is None:
            end = self._buffer.find(_END)
            if end < 0:
                if len(self._buffer) > MOST_HEAD:
                    raise HttpError(f"the head of an answer is longer than {MOST_HEAD} bytes")
                return None
            head = _read_head(bytes(self._buffer[:end]))
            del self._buffer[: end + len(_END)]
            if head.status >= 200:  # else it announces the answer
                self._head = head
        head = self._head
        if head.chunked:
            return self._end(b"".join(self._chunks)) if self._read_chunks() else None
        if head.length is None or len(self._buffer) < head.length:
            return None
        body = bytes(self._buffer[: head.length])
        del self._buffer[: head.length]
        return self._end(body)

    def end(self) -> Answer:
        """The connection has ended: return the answer whose body ends with it. Raises HttpError."""
        head = self._head
        if head is not None and head.length is None and not head.chunked:
            return self._end(bytes(self._buffer))
        raise HttpError("the connection was lost")

    def _end(self, body: bytes) -> Answer:
        assert self._head is not None
        if self._head.closes or (self._head.length is None and not self._head.chunked):
            self.closes = True
        answer = Answer(self._head.status, body)
        self._head, self._chunks, self._trailers = None, [], False
        return answer

    def _read_chunks(self) -> bool:
        """Take chunks from the buffer; return whether the last one has arrived."""
        buffer = self._buffer
        while True:
            if self._left:
                if len(buffer) < self._left:
                    return False
                self._chunks.append(bytes(buffer[: self._left - 2]))
                if buffer[self._left - 2 : self._left] != b"\r\n":
                    raise HttpError("a chunk is longer than it says")
                del buffer[: self._left]
                self._left = 0
            end = buffer.find(b"\r\n")
            if end < 0:
                if len(buffer) > MOST_HEAD:
                    raise HttpError("the length of a chunk is missing")
                return False
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            if self._trailers:
                if not line:
                    return True
                continue
            size = _number(line.partition(b";")[0].strip(), 16)
            self._trailers = size == 0
            self._left = size + 2 if size else 0


def _read_head(head: bytes) -> _Head:
    """Return what the head of an answer says of its body. Raises HttpError."""
    line, _, rest = head.partition(b"\r\n")
    version, _, status = line.partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise HttpError(f"the answer is not HTTP: {line[:40]!r}")
    code = _number(status[:3], 10)
    length: int | None = 0 if code < 200 or code in _NO_BODY else None
    chunked, closes = False, version == b"HTTP/1.0"
    for field in rest.split(b"\r\n"):
        name, _, value = field.partition(b":")
        match name.lower():
            case b"content-length" if length is None:
                length = _number(value.strip(), 10)
            case b"transfer-encoding":
                if value.strip().lower() != b"chunked":
                    raise HttpError(f"unknown transfer encoding {value[:40]!r}")
                chunked = code >= 200 and code not in _NO_BODY
            case b"connection":
                closes = b"close" in value.lower() or (closes and b"keep-alive" not in value.lower())
    return _Head(code, length, chunked, closes)


def _number(text: bytes, base: int) -> int:
    digits = b"0123456789abcdefABCDEF"[: 10 if base == 10 else None]
    if not text or len(text) > 15 or text.strip(digits):
        raise HttpError(f"{text[:40]!r} is not a number")
    return int(text, base)


class _Connection(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._parser = AnswerParser()
        self._answer: asyncio.Future[Answer] | None = None
        self._used = False
        self.idle_since = 0.0
        self.open = False

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent."""
        return self.open and not self._parser.closes and not self._parser.began and not self._transport.is_closing()

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request and return the future of its answer, which raises HttpError."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._timer = loop.call_later(self._seconds, self._fail, HttpError(f"no answer within {self._seconds:g} s"))
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._answer is not None:
            self._timer.cancel()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports are not derived from asyncio's.
        self._transport, self.open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer."""
        try:
            answer = self._parser.feed(data)
        except HttpError as error:
            self._fail(error)
            return
        if self._answer is None or self._answer.done():
            self.close()  # nobody asked
        elif answer is not None:
            self._used = True
            self._timer.cancel()
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Answer the request in flight."""
        self.open = False
        if self._answer is None or self._answer.done():
            return
        self._timer.cancel()
        if self._used and not self._parser.began:
            self._answer.set_exception(Unsent(f"the connection was closed: {error!r}"))
            return
        try:
            answer = self._parser.end()
        except HttpError as lost:
            self._answer.set_exception(lost if error is None else HttpError(repr(error)))
        else:
            self._answer.set_result(answer)

    def _fail(self, error: HttpError) -> None:
        if self._answer is not None and not self._answer.done():
            self._timer.cancel()
            self._answer.set_exception(error)
        self.close()


class HttpPool:
    """Connections to the server of ``url``, at most ``limit``; requests beyond wait for one of them.

    ``name`` is the name in the server's certificate, None for that of ``url``. Each request, and each connection, may
    take ``seconds``.
    """

    def __init__(
        self, url: str, tls: ssl.SSLContext | None = None, *, name: str | None = None, limit: int, seconds: float
    ) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._tls = tls if self._secure else None
        self._name = (name or self._host) if self._secure else None
        self._idle: list[_Connection] = []
        self._room = asyncio.Semaphore(limit)
        self._seconds = seconds

    async def request(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        """Send a request and return its answer. Raises OSError, TimeoutError.

        A request that only reads is repeated once if the server closed the connection meanwhile.
        """
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\r\n") != len(lines) - 1 or "\n" in head.replace("\r\n", ""):
            raise ValueError("a header contains the end of a line")
        message = head.encode("latin-1") + _END + body
        async with self._room:
            try:
                return await self._send(message)
            except Unsent:
                if method != "GET":
                    raise
                return await self._send(message)

    async def _send(self, message: bytes) -> Answer:
        connection = self._take() or await self._connect()
        try:
            answer = await connection.send(message)
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> _Connection | None:
        """Return the connection that was used last, None if there is none; close those that are too old."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(self._seconds):
            _, connection = await asyncio.get_running_loop().create_connection(
                partial(_Connection, self._seconds),
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._name,
            )
        return connection

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
