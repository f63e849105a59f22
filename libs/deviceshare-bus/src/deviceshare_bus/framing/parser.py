"""The parser of what nats-server sends: bytes in any pieces to messages and other lines."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from deviceshare_bus.framing.received import Listener, Received

MAX_LINE = 1 << 16
"""Bytes of a line, at most; the longest is INFO, with the addresses of a cluster's servers."""
MAX_MESSAGE = 1 << 27
"""Bytes of a message with its headers, at most: twice what nats-server takes."""


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
                if not line.startswith((b"PING", b"PONG", b"INFO", b"+OK", b"-ERR")):
                    raise Malformed(f"unknown operation {line[:20]!r}")
                others.append(Other(line))
                at = start
                continue
            words = line.split()
            count = len(words)
            with_head = words[0] == b"HMSG"
            if with_head:
                count -= 1
            elif words[0] != b"MSG":
                raise Malformed(f"unknown operation {line[:20]!r}")
            if not 4 <= count <= 5:
                raise Malformed(f"{line[:80]!r}")
            total = _number(words[-1])
            head_size = _number(words[-2]) if with_head else 0
            sid = _number(words[2])
            if total > MAX_MESSAGE or head_size > total:
                raise Malformed(f"{line[:80]!r}")
            stop = start + total
            if stop + 2 > size:
                need = stop + 2 - at
                break
            if not data.startswith(b"\r\n", stop):
                raise Malformed("a message is longer than its line says")
            at = stop + 2
            head = data[start : start + head_size] if head_size else b""
            payload = data[start + head_size : stop]
            reply = words[3] if count == 5 else b""
            listener = self._listeners.get(sid)
            if listener is None:
                others.append(Other(b"", sid, words[1], reply, head, payload))
                continue
            try:
                listener(Received(words[1].decode("utf-8", "replace"), reply.decode("utf-8", "replace"), payload, head))
            except Exception as error:
                self._failed(error)
        if at < size:
            self._pieces = [data[at:]]
            self._have = size - at
            self._need = need
        return others


def _number(word: bytes) -> int:
    """Return a number. Raises Malformed."""
    if not word.isdigit() or len(word) > 18:
        raise Malformed(f"{word[:20]!r} is not a number")
    return int(word)
