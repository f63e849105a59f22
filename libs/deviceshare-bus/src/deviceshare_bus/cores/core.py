"""The skeleton of a service: a pure core that turns events into commands, and the events and commands of every core.

A core holds a service's state. It knows no clock, event loop, socket or randomness: the shell
(:mod:`deviceshare_bus.runtime.shell`) passes it events with the time, executes the commands that it returns, and
answers each command with further events. The same events at the same times give the same commands, which makes a core
replayable (:mod:`.core_log`).

A service defines its own events and commands as further subclasses of :class:`Event` and :class:`Command`.
"""

from typing import Any, Protocol

import msgspec
from deviceshare.model import Now as Now


class Event(msgspec.Struct, frozen=True, tag=True, tag_field="event"):
    """Something that happened. Events are immutable: the core log keeps references to them."""

    @property
    def size(self) -> int:
        """What the event counts against the bound of the core log; more than 1 for one that holds many objects."""
        return 1

    @property
    def data_bytes(self) -> int:
        """The bytes of the objects in the event that are no message of the bus."""
        return 0


class Command(msgspec.Struct, frozen=True, tag=True, tag_field="command"):
    """Something that the shell is to do. Commands are executed in the order in which the core returned them."""


class Core(Protocol):
    """The state machine of a service."""

    def handle(self, event: Event, now: Now) -> list[Command]:
        """Apply an event and return the commands that follow from it."""

    def next_due(self, now: Now) -> float | None:
        """Return the monotonic time of the next :class:`Tick` that is needed without further events, None for never.

        After any other event the shell sends a :class:`Tick` by itself.
        """

    @property
    def open_work(self) -> int:
        """The number of decisions, writes and other steps that are pending; 0 for a settled service."""


class Tick(Event, frozen=True):
    """Time to act: events were handled since the last tick, or :meth:`Core.next_due` has come.

    Ticks follow one another at an interval of some milliseconds at least, so that work is batched under load.
    """


class CaughtUp(Event, frozen=True):
    """A stream has been read to its end once; follows the events of all messages that were there."""

    stream: str


class Unreadable(Event, frozen=True):
    """A message is invalid (:mod:`deviceshare_bus.messages.validation`). The shell has quarantined and counted it.

    ``newer``: it has a later version than this program knows; the subject must not be written.
    """

    stream: str
    subject: str
    sequence: int
    reason: str = ""
    newer: bool = False


class Written(Event, frozen=True):
    """A :class:`Write` was acknowledged.

    ``sequence`` is that of its last message; the messages of one write have consecutive sequences. ``sent_at``: the
    unix time by which new claims in ledgers were stamped (:meth:`deviceshare.model.NodeLedger.sent`), 0 if they were
    not.
    """

    token: int
    sequence: int
    sent_at: float = 0.0


class WriteConflict(Event, frozen=True):
    """A subject of a :class:`Write` did not have the expected sequence. Nothing was written."""

    token: int


class WriteUnknown(Event, frozen=True):
    """No answer to a :class:`Write` arrived: it may or may not have been written."""

    token: int


class WriteRefused(Event, frozen=True):
    """The server will never accept a :class:`Write`. Nothing was written."""

    token: int
    reason: str


class Stopping(Event, frozen=True):
    """The service was asked to end. Only writes, :class:`PutLatest` and traces of what follows are executed."""


class ReadBack(Event, frozen=True):
    """A :class:`Read` is complete, or the message of an :class:`Unreadable` was deleted.

    ``sequence`` is that of the subject's last message, 0 if it has none. The event of the message itself, or
    :class:`Unreadable`, comes first.
    """

    subject: str
    sequence: int


WriteAnswer = Written | WriteConflict | WriteUnknown | WriteRefused
"""The answers to a :class:`Write`."""
CommonEvent = CaughtUp | Tick | Unreadable | WriteAnswer | ReadBack | Stopping
"""The events that the shell sends to every core."""


class SubjectWrite(msgspec.Struct, frozen=True):
    """One message of a :class:`Write`.

    Args:
        subject: where to write.
        message: the struct to encode, or bytes.
        expected: the sequence that must be the subject's last, 0 for none, None for any.
        ttl: seconds for which the server keeps the message, None without a limit; only of the single message of a
            :class:`Write`.
    """

    subject: str
    message: Any
    expected: int | None = None
    ttl: float | None = None


class Guard(msgspec.Struct, frozen=True):
    """A message that is stored together with a :class:`Write`, which conflicts if the subject ``unless`` has a message.

    One of them is stored with all writes that the shell sends together.
    """

    subject: str
    message: Any
    unless: str


class Write(Command, frozen=True):
    """Publish messages, all or none, and under a ``guard`` if there is one.

    Answered by :class:`Written`, :class:`WriteConflict`, :class:`WriteUnknown` or :class:`WriteRefused` with the same
    token.
    """

    token: int
    writes: tuple[SubjectWrite, ...]
    guard: Guard | None = None


class Read(Command, frozen=True):
    """Read the last message of a subject; answered by :class:`ReadBack`."""

    stream: str
    subject: str


class PutLatest(Command, frozen=True):
    """Publish a message of which only the newest per subject counts. Retried until acknowledged; not answered."""

    subject: str
    message: Any
    ttl: float | None = None


class ExpireOthers(Command, frozen=True):
    """Let the messages of a stream expire ``ttl`` seconds from now, except those of the subjects to keep.

    For messages of objects that were deleted while the service did not run. Messages written after this command, and
    messages that expire anyway, are left alone. Not answered.
    """

    stream: str
    keep: tuple[str, ...]
    ttl: float


class RecordStep(Command, frozen=True):
    """Record a step in the life of a pod on EVENT, ``at`` unix seconds, 0 for the time of execution."""

    uid: str
    pod: str
    name: str
    node: str = ""
    message: str = ""
    at: float = 0.0


class RecordTrace(Command, frozen=True):
    """Export phases of a pod as spans of its trace, if traces are exported and the pod is sampled.

    Args:
        uid: the pod's uid, from which all ids follow.
        namespace: the pod's namespace.
        name: the pod's name.
        times: the begin of the first of :data:`deviceshare.model.PHASES` and the ends of as many as are known, in unix
            seconds. A time before its predecessor counts as equal to it: clocks of machines differ.
        first: the first phase to export; the ones before it are exported by other processes.
        root: whether to export the root span, from the first to the last of ``times``. Each root has one exporter.
        node: where the pod was claimed.
        queue: the pod's queue, '' if it is not known.
        result: ``bound`` or ``deleted``.
        reason: why it waited, or why it has this result.
        decided_by: the instance that decided; together with the second of ``times`` it identifies the batch.
    """

    uid: str
    namespace: str
    name: str
    times: tuple[float, ...]
    first: int = 0
    root: bool = False
    node: str = ""
    queue: str = ""
    result: str = ""
    reason: str = ""
    decided_by: str = ""


class RecordBatch(Command, frozen=True):
    """Export a round of decisions as a span of its own that links the spans of its pods; it ends now.

    Args:
        decided_by: the instance that decided.
        at: the begin of the round, the ``decided_at`` of its claims, in unix seconds.
        uids: the pods that were placed.
        messages: the number of ledgers that were sent.
    """

    decided_by: str
    at: float
    uids: tuple[str, ...]
    messages: int


class Count(Command, frozen=True):
    """Increment a counter of the service."""

    name: str
    amount: int = 1


class Log(Command, frozen=True):
    """Write a line to the service's log; ``level`` is debug, info, warning or error."""

    level: str
    message: str
    details: dict[str, Any] = {}


CommonCommand = Write | Read | PutLatest | ExpireOthers | RecordStep | RecordTrace | RecordBatch | Count | Log
"""The commands that the shell executes; all others are a service's own."""
