"""The core log: the latest events of a core and the commands that it returned, for diagnosis and replay.

A dump is a file of msgpack values: the :class:`Header`, then one :class:`Entry` per event. It may contain object names
and annotations of the cluster, but no signing keys.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from deviceshare_bus.cores.core import Command, Core, Event, Now, Write

LIMIT = 10_000
"""The sum of the sizes of the events that a core log keeps."""
LOG_BYTES = 1 << 26
"""The bytes of the messages and objects of these events, and of the messages that the core wrote."""
VERSION = 1
"""The format of a dump."""
T = TypeVar("T")


class Header(msgspec.Struct, frozen=True):
    """The first value of a dump.

    ``dropped`` counts the entries that the bound removed before the first one: a dump with 0 can be replayed.
    """

    service: str
    instance: str
    arguments: dict[str, Any]
    dropped: int
    v: int = VERSION


Entry = tuple[Now, Event, Sequence[Command]]
"""The time of an event, the event, and the commands of the core; in a dump all three are encoded values."""


class CoreLog:
    """Keeps the latest entries of one core.

    Args:
        service: the service's name.
        instance: the process's name.
        arguments: the arguments from which the service builds its core, without secrets.
        limit: the sum of the events' sizes to keep; the latest event is kept whatever its size.
    """

    def __init__(self, service: str, instance: str, arguments: dict[str, Any], limit: int = LIMIT) -> None:
        self._service = service
        self._instance = instance
        self._arguments = arguments
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._sizes: deque[tuple[int, int]] = deque()
        """Of each entry what counts against both bounds."""
        self._size = self._bytes = 0
        self._count = 0

    def append(self, now: Now, event: Event, commands: Sequence[Command], message: int = 0) -> None:
        """Record one call of :meth:`.core.Core.handle`; ``message``: the bytes of the message of the event.

        Encoding waits for :meth:`dump`: this is on the hot path.
        """
        self._count += 1
        self._entries.append((now, event, commands))
        size, data = event.size, message + event.data_bytes + (_written_bytes(commands) if commands else 0)
        self._sizes.append((size, data))
        self._size += size
        self._bytes += data
        while (self._size > self._limit or self._bytes > LOG_BYTES) and len(self._entries) > 1:
            self._entries.popleft()
            size, data = self._sizes.popleft()
            self._size -= size
            self._bytes -= data

    def dump(self) -> bytes:
        """Return the log as the content of a file for ``deviceshare replay``."""
        encoder = msgspec.msgpack.Encoder()
        header = Header(self._service, self._instance, self._arguments, self._count - len(self._entries))
        return b"".join([_frame(encoder.encode(header)), *(_frame(encoder.encode(entry)) for entry in self._entries)])


def _written_bytes(commands: Sequence[Command]) -> int:
    """Return the bytes of the messages that commands write encoded."""
    writes = (write for command in commands if isinstance(command, Write) for write in command.writes)
    return sum(len(write.message) for write in writes if isinstance(write.message, bytes))


class RecordedEntry(msgspec.Struct, frozen=True, array_like=True):
    """An :class:`Entry` of a dump, its event and commands not decoded yet."""

    now: Now
    event: msgspec.Raw
    commands: msgspec.Raw


def read_dump(file: BinaryIO) -> tuple[Header, Iterator[RecordedEntry]]:
    """Return the header and the entries of a dump.

    Raises:
        ValueError: the file is not a dump, is of another version, or is cut off; entries raise it as they are read.
    """
    header = _decode(msgspec.msgpack.Decoder(Header), _next_frame(file))
    if header.v != VERSION:
        raise ValueError(f"the core log has version {header.v}, expected {VERSION}")
    return header, _entries(file)


def _entries(file: BinaryIO) -> Iterator[RecordedEntry]:
    decoder = msgspec.msgpack.Decoder(RecordedEntry)
    while frame := _next_frame(file):
        yield _decode(decoder, frame)


def _decode(decoder: msgspec.msgpack.Decoder[T], frame: bytes) -> T:
    try:
        return decoder.decode(frame)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the file is not a core log: {error}") from error


class Replayed(NamedTuple):
    """One replayed event; ``identical``: the commands are byte for byte the recorded ones."""

    now: Now
    event: Event
    commands: list[Command]
    identical: bool


def replay(core: Core, entries: Iterator[RecordedEntry], decode: Callable[[msgspec.Raw], Event]) -> Iterator[Replayed]:
    """Feed recorded events to a core; yield each event with the recorded and the replayed commands.

    ``decode`` decodes an event of the core's service.
    """
    encoder = msgspec.msgpack.Encoder()
    for entry in entries:
        event = decode(entry.event)
        commands = core.handle(event, entry.now)
        yield Replayed(entry.now, event, commands, bytes(entry.commands) == encoder.encode(commands))


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _next_frame(file: BinaryIO) -> bytes:
    """Return the next value, empty at the end of the file."""
    size = file.read(4)
    if not size:
        return b""
    data = file.read(int.from_bytes(size, "big"))
    if len(size) < 4 or len(data) < int.from_bytes(size, "big"):
        raise ValueError("the file is not a core log, or is cut off")
    return data
