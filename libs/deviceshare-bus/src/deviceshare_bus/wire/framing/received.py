"""A message that nats-server has sent."""

from collections.abc import Callable

_VERSION = b"NATS/1.0"


class Received:
    """A message from the server.

    Args:
        subject: its subject. Bytes that are not UTF-8 are replaced by U+FFFD.
        reply: where an answer is expected, '' for nowhere. The number of a delivery is in it, see :meth:`delivery`.
        data: its payload.
        head: its headers as they were sent, b'' for none.
    """

    def __init__(self, subject: str, reply: str, data: bytes, head: bytes = b"") -> None:
        self.subject = subject
        self.reply = reply
        self.data = data
        self.head = head

    @property
    def status(self) -> str:
        """The status of a message that the server itself has written, such as 503 for no responders; '' for none."""
        if not self.head.startswith(b"NATS/1.0 "):
            return ""
        return self.head[9:12].strip().decode("ascii", "replace")

    def field(self, name: bytes) -> bytes:
        """Return the last value of a header by its exact name, b'' if there is none."""
        head = self.head
        at = head.rfind(b"\r\n" + name + b":")
        if at < 0:
            return b""
        start = at + len(name) + 3
        end = head.find(b"\r\n", start)
        return head[start : end if end >= 0 else len(head)].strip()

    @property
    def headers(self) -> dict[str, str]:
        """All headers, as nats-py gives them: ``Status`` and ``Description`` are those of the server."""
        found: dict[str, str] = {}
        if not self.head.startswith(_VERSION):
            return found
        lines = self.head.split(b"\r\n")
        status, _, description = lines[0][len(_VERSION) :].strip().partition(b" ")
        if status.isdigit():
            found["Status"] = status.decode("ascii")
        if description:
            found["Description"] = description.strip().decode("utf-8", "replace")
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            key = name.strip()
            if colon and key.isascii() and len(key.split()) <= 1:
                found[key.decode("ascii")] = value.strip().decode("utf-8", "replace")
        return found

    def delivery(self) -> tuple[int, int, int, int]:
        """Return the numbers in the reply of a delivery of a consumer.

        The sequence in the stream, when the message was stored (nanoseconds of unix time), the number of the delivery,
        and how many are pending. The reply is
        ``$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>``, with the
        domain and the account before the stream, and a token behind, on newer servers.

        Raises:
            ValueError: it is the reply of another message.
        """
        tokens = self.reply.split(".")
        count = len(tokens)
        if count < 9 or tokens[1] != "ACK":
            raise ValueError(f"{self.reply!r} is not the reply of a delivery")
        at = 5 if count == 9 else 7
        return int(tokens[at]), int(tokens[at + 2]), int(tokens[at + 1]), int(tokens[at + 3])


Listener = Callable[[Received], None]
"""Hears of a message. It must not wait, and what it raises is logged."""
