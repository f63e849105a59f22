"""The facts that CLUSTER holds, the facts that it should hold, and the writes that lead from one to the other.

A fact that is wanted while a write of its subject is in flight waits, and only the newest is written. Every write
expects the last sequence seen, so that an inventory that was paused cannot overwrite newer facts.
"""

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from deviceshare.model import Fact, Gone, revision_number
from deviceshare_bus.cores.conditional_writer import ConditionalWriter, Result
from deviceshare_bus.cores.core import Command, Count, Log, WriteAnswer, WriteRefused, Written
from deviceshare_bus.cores.postponed import Postponed
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import TOMBSTONE_SECONDS, Stream

WRITES = 1000
"""Writes in flight and read-backs under way, at most."""
_REVISION_FIELD = msgspec.msgpack.encode("revision")
_FIRST_FIELDS = 64
"""Bytes of a message that hold its first fields: the kind, and the revision if it is not longer than usual."""


class OpenSubject(NamedTuple):
    """The cluster's revision since which a subject is open, and its place in the order of opening."""

    since: int
    ticket: int


class _Content(NamedTuple):
    """A digest of a fact without its revision, and the revision, 0 if it is not a number."""

    digest: bytes
    revision: int
    gone: bool


_UNREADABLE = _Content(b"", 0, False)


class _Record(msgspec.Struct, eq=False):
    """One subject."""

    published: _Content | None = None
    """The last message that was seen."""
    foreign: bool = False
    """Whether another writer wrote it since this process started."""
    newer: bool = False
    """Whether the last message has a later version than this program knows: it is not replaced."""
    wanted: _Content | None = None
    message: bytes | Fact = b""
    """The message of ``wanted``; a fact that others keep as well is encoded when it is written."""
    generation: int = 0
    """The list of the cluster that wanted the fact last."""

    @property
    def exists(self) -> bool:
        """Whether the subject holds an object, or a write of one is due or in flight."""
        return self.holds_object or (self.wanted is not None and not self.wanted.gone)

    @property
    def holds_object(self) -> bool:
        """Whether the subject holds an object."""
        return self.published is not None and not self.published.gone

    @property
    def matches(self) -> bool:
        """Whether the message may stay: it is the wanted one, or another writer's of a later revision.

        One of the same revision may not: other objects, such as the configuration, may have changed the fact since.
        """
        if self.wanted is None or self.newer:
            return True
        if self.published is None:
            return self.wanted.gone
        same = self.published.digest == self.wanted.digest
        return same or (self.foreign and self.published.revision > self.wanted.revision)


class DesiredState:
    """All subjects of CLUSTER except ``cluster.synced``; ``limit`` bounds the writes in flight."""

    def __init__(self, limit: int = WRITES) -> None:
        self._limit = limit
        self._writer: ConditionalWriter[_Content] = ConditionalWriter(Stream.CLUSTER)
        self._records: defaultdict[str, _Record] = defaultdict(_Record)
        self._ready: OrderedDict[str, None] = OrderedDict()  # a dict would make taking the first entry slow
        """Subjects to write, in order."""
        self.ticket = 0
        """How many subjects have been opened so far."""
        self.open: OrderedDict[str, OpenSubject] = OrderedDict()
        """Subjects that do not hold the wanted fact yet, in the order of opening, without those that were refused."""
        self._refused = Postponed()
        """Subjects whose wanted fact the server has refused."""
        self.lacking: set[str] = set()
        """Subjects that hold no object since their fact was refused: for readers there is none."""

    def load(self, subject: str, sequence: int, fact: Fact | None, *, foreign: bool) -> None:
        """Record the message under a subject; ``fact`` is None if it cannot be decoded.

        ``foreign``: another writer may have written it. It then stays if its revision is not older than ours.
        """
        if not self._writer.seen(subject, sequence):
            return
        record = self._records[subject]
        record.published = _content(fact) if fact is not None else _UNREADABLE
        record.foreign, record.newer = foreign, False
        self._update(subject, record, record.wanted.revision if record.wanted is not None else 0)

    def leave(self, subject: str, sequence: int) -> None:
        """Record a message of a later version: the subject is not written until another writer replaces it."""
        if self._writer.seen(subject, sequence):
            record = self._records[subject]
            record.published, record.newer = _UNREADABLE, True
            self._update(subject, record)

    def knows(self, subject: str, sequence: int) -> bool:
        """Return whether this or a later message of the subject has been seen."""
        return self._writer.knows(subject, sequence)

    def writes(self, subject: str, data: bytes) -> bool:
        """Return whether this message is being written to the subject.

        The server may deliver it before it answers. If the message is another writer's, the answer is a conflict, and
        the subject is read back.
        """
        return self._writer.writes(subject, data)

    def want(self, subject: str, fact: Fact, revision: int, generation: int = 0, *, kept: bool = False) -> None:
        """Set the fact that a subject should hold since the cluster's ``revision``.

        ``kept``: the caller keeps the fact as well, so that it takes less memory here than its message.
        """
        data = encode(fact)
        content = _content(fact, data)
        if content.gone and subject not in self._records:
            return
        record = self._records[subject]
        record.generation = generation
        if record.wanted is None or record.wanted.digest != content.digest:
            self._refused.forget(subject)
        record.wanted = content
        record.message = fact if kept else data
        self._update(subject, record, revision)

    def exists(self, subject: str) -> bool:
        """Return whether the subject holds an object, or a write of one is due or in flight."""
        record = self._records.get(subject)
        return record is not None and record.exists

    def older_than(self, generation: int) -> Iterator[str]:
        """Yield the subjects of objects that were last wanted before ``generation``."""
        return (
            subject
            for subject, record in list(self._records.items())
            if record.generation < generation and record.exists
        )

    def open_before(self, ticket: int) -> bool:
        """Return whether a subject that was opened up to this ticket is still open."""
        return bool(self.open) and next(iter(self.open.values())).ticket <= ticket

    def objects(self) -> int:
        """Return the number of subjects that hold an object, or for which a write of one is due or in flight."""
        return sum(record.exists for record in self._records.values())

    @property
    def in_flight(self) -> int:
        """The number of writes in flight and of subjects that are being read back."""
        return self._writer.open

    @property
    def retry_due(self) -> float | None:
        """The monotonic time at which a fact that was refused is written again, None if there is none."""
        return self._refused.due

    def retry(self, now: float) -> None:
        """Queue the facts that were refused and are due at a monotonic time."""
        for subject in self._refused.take(now):
            record = self._records.get(subject)
            if record is not None:
                self._update(subject, record, record.wanted.revision if record.wanted is not None else 0)

    def take_writes(self) -> list[Command]:
        """Return the writes that are due and fit in the limit."""
        writes: list[Command] = []
        while self._ready and self._writer.open < self._limit:
            subject, _ = self._ready.popitem(last=False)
            record = self._records.get(subject)
            if record is None or record.wanted is None or record.matches or self._writer.busy(subject):
                continue
            if subject in self._refused:
                continue
            ttl = TOMBSTONE_SECONDS if record.wanted.gone else None
            message = record.message if isinstance(record.message, bytes) else encode(record.message)
            writes.append(self._writer.write([(subject, message)], record.wanted, ttl=ttl))
        return writes

    def handle(self, answer: WriteAnswer, now: float) -> list[Command]:
        """Apply the answer to a write, at a monotonic time."""
        completed = self._writer.handle(answer)
        subject = completed.write.writes[0].subject
        record = self._records[subject]
        commands = completed.commands
        match answer:
            case Written(sequence=sequence) if sequence == self._writer.sequence(subject):
                record.published, record.foreign, record.newer = completed.context, False, False
            case WriteRefused(reason=reason):
                # Not again at once: either another fact is wanted there, or the limits of the server are raised.
                if record.wanted == completed.context:
                    self._refused.add(subject, now)
                    if not record.holds_object:
                        self.lacking.add(subject)
                details = {"subject": subject}
                commands = [
                    Log("error", f"the bus refused the fact {subject}: {reason}", details),
                    Count("facts_refused"),
                ]
        if completed.result is Result.CONFLICT:
            commands = [Count("inventory_conflicts"), *commands]
        self._update(subject, record)
        return commands

    def read_back(self, subject: str, sequence: int) -> None:
        """Record that a subject was read back; its message, if any, was loaded before."""
        self._writer.read_back(subject, sequence)
        record = self._records.get(subject)
        if record is None:  # the message was another writer's, and is gone
            return
        if not sequence:  # a tombstone that expired
            record.published, record.newer = None, False
        self._update(subject, record)

    def _update(self, subject: str, record: _Record, revision: int = 0) -> None:
        """Open or close a subject after a change, and queue the write that it needs."""
        busy, matches = self._writer.busy(subject), record.matches
        if matches or record.holds_object:
            self.lacking.discard(subject)
        if matches:
            self._refused.forget(subject)
            if record.published == record.wanted:
                record.published = record.wanted  # one object in memory instead of two
        if (matches or subject in self._refused) and not busy:
            self.open.pop(subject, None)
            self._ready.pop(subject, None)
            if matches and not record.exists:  # there is no end of names and uids
                del self._records[subject]
                self._writer.forget(subject)
            return
        if not matches and subject not in self.open:
            self.ticket += 1
            self.open[subject] = OpenSubject(revision, self.ticket)
        if not busy:
            self._ready[subject] = None


def _content(fact: Fact, data: bytes = b"") -> _Content:
    """Return the content of a fact; ``data`` is its message, if it is encoded already."""
    data = data or encode(fact)
    digest = hashlib.blake2b(digest_size=16)
    # The revision is one of the first fields of the message, without it the message is the content.
    field = _REVISION_FIELD + msgspec.msgpack.encode(fact.revision)
    at = data.find(field, 0, _FIRST_FIELDS) if fact.revision else -1
    if at < 0:
        digest.update(data)
    else:
        digest.update(data[:at])
        digest.update(data[at + len(field) :])
    return _Content(digest.digest(), revision_number(fact.revision), isinstance(fact, Gone))
