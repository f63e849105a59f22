"""What is sent to nats-server: messages and their headers as bytes."""

from collections.abc import Mapping

from nats.errors import BadSubjectError


def publication(subject: str, reply: str, head: bytes, data: bytes) -> bytes:
    """Return a message as it is sent; ``head`` as :func:`encode_headers` returns it, b'' for none.

    Raises:
        BadSubjectError: the subject is empty, or a subject has white space, which would end it.
    """
    destination = f"{subject} {reply}"
    # The white space that separates the words, and nothing else: a space for each subject.
    if not subject or destination.count(" ") != 1 or "\r" in destination or "\n" in destination or "\t" in destination:
        raise BadSubjectError
    if head:
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (destination.encode(), len(head), len(head) + len(data), head, data)
    return b"PUB %b %d\r\n%b\r\n" % (destination.encode(), len(data), data)


def encode_headers(fields: Mapping[str, str]) -> bytes:
    """Return headers as they are sent, b'' for none.

    Raises:
        ValueError: a name or value that would end its line.
    """
    if not fields:
        return b""
    lines = ["NATS/1.0"]
    for name, value in fields.items():
        line = f"{name}: {value}"
        if not name or ":" in name or " " in name or "\r" in line or "\n" in line:
            raise ValueError(f"{line!r} is not a header")
        lines.append(line)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
