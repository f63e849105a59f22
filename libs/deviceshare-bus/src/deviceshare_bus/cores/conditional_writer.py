"""Conditional writes: the last sequence of each subject, and the results of the writes that expected it. Pure.

At most one write of a subject is in flight. After a conflict or an unknown answer the subject is read back before it is
written again, unless a newer message of it has been seen meanwhile.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from deviceshare.model import NodeLedger

from deviceshare_bus.cores.core import (
    Command,
    Guard,
    Read,
    SubjectWrite,
    Write,
    WriteAnswer,
    WriteConflict,
    WriteRefused,
    WriteUnknown,
    Written,
)

T = TypeVar("T")


class Result(Enum):
    """The result of a write."""

    WRITTEN = auto()
    CONFLICT = auto()
    UNKNOWN = auto()
    REFUSED = auto()


class Completed(NamedTuple, Generic[T]):
    """The answer to a write.

    ``context`` is the value that the caller attached to the write; ``commands`` read back subjects of unknown state.
    ``newer`` are the written messages that no known message has replaced.
    """

    result: Result
    write: Write
    context: T
    commands: list[Command]
    newer: Sequence[SubjectWrite] = ()


class ConditionalWriter(Generic[T]):
    """The writes of one service to one stream, by subject; ``T`` is what a caller attaches to each write."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._sequences: dict[str, int] = {}
        self._writes: dict[int, tuple[Write, T]] = {}
        self._in_flight: dict[str, int] = {}
        self._reading: set[str] = set()
        self._tokens = 0

    @property
    def open(self) -> int:
        """The number of writes in flight and of subjects that are being read back."""
        return len(self._writes) + len(self._reading)

    def busy(self, subject: str) -> bool:
        """Return whether the subject must not be written now: a write is in flight, or it is being read back."""
        return subject in self._in_flight or subject in self._reading

    def sequence(self, subject: str) -> int:
        """Return the sequence of the last message seen, 0 for none."""
        return self._sequences.get(subject, 0)

    def knows(self, subject: str, sequence: int) -> bool:
        """Return whether this message of a subject, or a later one, has been seen."""
        return sequence <= self._sequences.get(subject, 0)

    def writes(self, subject: str, message: Any) -> bool:
        """Return whether this message is being written to a subject: the answer says at which sequence, if at all."""
        token = self._in_flight.get(subject)
        return token is not None and any(
            each.subject == subject and each.message == message for each in self._writes[token][0].writes
        )

    def seen(self, subject: str, sequence: int) -> bool:
        """Record the sequence of a subject's message; return whether it is newer than the known one."""
        if sequence <= self._sequences.get(subject, 0):
            return False
        self._sequences[subject] = sequence
        return True

    def forget(self, subject: str) -> None:
        """Drop an idle subject that will not be written again."""
        self._sequences.pop(subject, None)

    def write(
        self,
        messages: Iterable[tuple[str, Any]],
        context: T,
        *,
        ttl: float | None = None,
        guard: Guard | None = None,
    ) -> Write:
        """Return the write of these messages by subject, all or none, under a guard; no subject may be busy.

        Raises:
            ValueError: a time to live for several messages or under a guard: atomic batches have none.
        """
        writes = tuple(SubjectWrite(subject, message, self.sequence(subject), ttl) for subject, message in messages)
        if ttl is not None and (len(writes) != 1 or guard is not None):
            raise ValueError(f"a write of {len(writes)} messages, or under a guard, cannot have a time to live")
        self._tokens += 1
        write = Write(self._tokens, writes, guard)
        for each in writes:
            assert not self.busy(each.subject), each.subject
            self._in_flight[each.subject] = write.token
        self._writes[write.token] = (write, context)
        return write

    def handle(self, answer: WriteAnswer) -> Completed[T]:
        """Apply the answer to a write."""
        write, context = self._writes.pop(answer.token)
        writes = write.writes
        for each in writes:
            del self._in_flight[each.subject]
        unclear: list[str] = []
        match answer:
            case Written(sequence=last, sent_at=sent_at):
                first = last - len(writes) + 1
                writes = tuple(each if not sent_at else _sent(each, sent_at) for each in writes)
                newer = [each for sequence, each in enumerate(writes, first) if self.seen(each.subject, sequence)]
                return Completed(Result.WRITTEN, write, context, [], newer)
            case WriteRefused():
                return Completed(Result.REFUSED, write, context, [])
            case WriteConflict():
                result = Result.CONFLICT
                unclear = [each.subject for each in writes if self.sequence(each.subject) == each.expected]
            case WriteUnknown():
                result = Result.UNKNOWN
                unclear = [each.subject for each in writes]
        self._reading.update(unclear)
        return Completed(result, write, context, [Read(self._stream, subject) for subject in unclear])

    def read_back(self, subject: str, sequence: int) -> None:
        """Record that a subject was read back; sequence 0: it has no message."""
        self._reading.discard(subject)
        if sequence:
            self.seen(subject, sequence)
        else:
            self._sequences.pop(subject, None)


def _sent(write: SubjectWrite, at: float) -> SubjectWrite:
    """Return a write as the shell has sent it."""
    if isinstance(write.message, NodeLedger):
        return msgspec.structs.replace(write, message=write.message.sent(at))
    return write
