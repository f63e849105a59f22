"""The parser of what nats-server sends: bytes in any pieces to messages and other lines."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from deviceshare_bus.wire.framing.received import Listener, Received

MAX_LINE = 1 << 16
"""Bytes of a line, at most; the longest is INFO, with the addresses of a cluster's servers."""
MAX_MESSAGE = 1 << 27
"""Bytes of a message with its headers, at most: twice what nats-server takes."""
_LINES = (b"PING", b"PONG", b"INFO", b"+OK", b"-ERR")


class Malformed(Exception):
    """What the server has sent is not the NATS protocol."""


class Other(NamedTuple):
    """What is not for a listener: a line such as INFO, or a message of a subscription without one.

    ``line`` is the line without its end. ``sid`` is the number of the subscription, 0 for a line that is no message.
    """

    line: bytes
    sid: int = 0
    subject: bytes = b""
    reply: bytes = b""
    head: bytes = b""
    data: bytes = b""


class Parser:
    """Parses one connection.

    At most a message of :data:`MAX_MESSAGE` is kept until it is complete.

    Args:
        listeners: who hears of the messages of a subscription, by its number; may change at any time.
        failed: hears of errors that a listener raises.
    """

    def __init__(self, listeners: Mapping[int, Listener], failed: Callable[[Exception], None]) -> None:
        self._listeners = listeners
        self._failed = failed
        self._pieces: list[bytes] = []
        """What has arrived of something incomplete."""
        self._have = 0
        """The bytes of these."""
        self._need = 0
        """The bytes from which on it may be complete."""

    def feed(self, data: bytes) -> list[Other]:
        """Take what has arrived; pass complete messages to their listeners, and return the rest in order.

        Raises:
            Malformed: this is no NATS protocol; the connection cannot be used any more.
        """
        others: list[Other] = []
        if self._have:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                return others
            data = b"".join(self._pieces)
            self._pieces = []
            self._have = 0
        size = len(data)
        at = 0
        need = 0
        while at < size:
            end = data.find(b"\r\n", at)
            if end < 0:
                if size - at > MAX_LINE:
                    raise Malformed(f"a line of more than {MAX_LINE} bytes")
                need = size - at + 1
                break
            if end - at > MAX_LINE:
                raise Malformed(f"a line of {end - at} bytes")
            line = data[at:end]
            start = end + 2
            if not line.startswith((b"MSG", b"HMSG")):
                if not line.startswith(_LINES):
                    raise Malformed(f"unknown operation {line[:20]!r}")
                others.append(Other(line))
                at = start
                continue
            sid, subject, reply, head_size, total = _numbers(line)
            stop = start + total
            if stop + 2 > size:
                need = stop + 2 - at
                break
            if not data.startswith(b"\r\n", stop):
                raise Malformed("a message is longer than its line says")
            at = stop + 2
            head = data[start : start + head_size] if head_size else b""
            payload = data[start + head_size : stop]
            listener = self._listeners.get(sid)
            if listener is None:
                others.append(Other(b"", sid, subject, reply, head, payload))
                continue
            try:
                listener(Received(subject.decode("utf-8", "replace"), reply.decode("utf-8", "replace"), payload, head))
            except Exception as error:
                self._failed(error)
        if at < size:
            self._pieces = [data[at:]]
            self._have = size - at
            self._need = need
        return others


def _numbers(line: bytes) -> tuple[int, bytes, bytes, int, int]:
    """Return the subscription, subject, reply, bytes of headers and bytes altogether of a message. Raises Malformed.

    ``MSG <subject> <sid> [reply] <bytes>``, or ``HMSG <subject> <sid> [reply] <bytes of headers> <bytes>``.
    """
    words = line.split(b" ")  # as nats-server divides them: a subject may contain other white space, such as \x0b
    with_head = words[0] == b"HMSG"
    count = len(words) - 1 if with_head else len(words)
    if not 4 <= count <= 5 or not (with_head or words[0] == b"MSG"):
        raise Malformed(f"{line[:80]!r}")
    head_size = _number(words[-2]) if with_head else 0
    total = _number(words[-1])
    if total > MAX_MESSAGE or head_size > total:
        raise Malformed(f"{line[:80]!r}")
    return _number(words[2]), words[1], words[3] if count == 5 else b"", head_size, total


def _number(word: bytes) -> int:
    """Return a number. Raises Malformed."""
    if not word.isdigit() or len(word) > 18:
        raise Malformed(f"{word[:20]!r} is not a number")
    return int(word)
