"""What stands on the bus, what should stand there, and the writes that lead from one to the other.

Pure. A subject has at most one write in flight; what is wanted meanwhile waits, and only the newest of it is written.
Each write expects the sequence that was seen last, so a writer that slept cannot overwrite newer facts.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from deviceshare.model import Fact, Gone
from deviceshare_bus.messages import encode

TOMBSTONE_SECONDS = 3600.0
"""How long a reader that was away can still see that an object went."""


class Write(NamedTuple):
    """Publish ``data``; ``expected`` is the subject's last sequence, None for whatever it is; ``ttl`` in seconds."""

    subject: str
    data: bytes
    expected: int | None
    ttl: float | None


class ReadBack(NamedTuple):
    """Read what stands under a subject now, and say so with :meth:`Board.read_back`."""

    subject: str


class Opened(NamedTuple):
    """Since which revision of the cluster a subject has been open, and as the how-manieth it was opened."""

    since: int
    ticket: int


class _Text(NamedTuple):
    """A fact's content without its revision (a digest, to compare) and the revision, as a number where it is one."""

    digest: bytes
    revision: int
    gone: bool


_UNREADABLE = _Text(b"", 0, False)


class _Record:
    """One subject."""

    __slots__ = ("data", "foreign", "generation", "in_flight", "queued", "reading", "sequence", "standing", "wanted")

    def __init__(self) -> None:
        self.sequence = 0
        self.standing: _Text | None = None
        self.foreign = False
        """Whether somebody else wrote what stands there, since we began."""
        self.wanted: _Text | None = None
        self.data = b""
        self.in_flight: _Text | None = None
        self.reading = False
        self.queued = False
        self.generation = 0

    @property
    def there(self) -> bool:
        """Whether an object stands there, or is about to."""
        return any(text is not None and not text.gone for text in (self.standing, self.wanted, self.in_flight))

    @property
    def busy(self) -> bool:
        """Whether an answer of the bus is awaited."""
        return self.in_flight is not None or self.reading

    @property
    def settled(self) -> bool:
        """Whether what stands there may stay: what is wanted, or another writer's that is not older."""
        if self.wanted is None:
            return True
        if self.standing is None:
            return self.wanted.gone
        same = self.standing.digest == self.wanted.digest
        return same or (self.foreign and self.standing.revision >= self.wanted.revision)


class DesiredState:
    """All subjects.

    ``limit`` is how many writes may be in flight at once, ``unconditional`` are subjects without compare-and-set.
    """

    def __init__(self, limit: int = 1000, unconditional: frozenset[str] = frozenset()) -> None:
        self._limit = limit
        self._unconditional = unconditional
        self._records: dict[str, _Record] = {}
        self._queue: deque[str] = deque()
        self._reads: list[str] = []
        self._in_flight = 0
        self.ticket = 0
        """Counts what was opened."""
        self.open: OrderedDict[str, Opened] = OrderedDict()
        """Subjects that do not stand as they should yet, in the order in which they were opened."""

    def stands(self, subject: str, sequence: int, fact: Fact | None, *, foreign: bool) -> None:
        """Learn what stands under a subject; ``fact`` is None for what cannot be decoded.

        ``foreign`` says that it may be another writer's: it then stays if its revision is not older than ours.
        """
        if self.knows(subject, sequence):
            return
        record = self._record(subject)
        record.sequence = sequence
        record.standing = _text(fact) if fact is not None else _UNREADABLE
        record.foreign = foreign
        self._look(subject, record, record.wanted.revision if record.wanted is not None else 0)

    def knows(self, subject: str, sequence: int) -> bool:
        """Whether this or a later message of the subject has been seen."""
        record = self._records.get(subject)
        return record is not None and sequence <= record.sequence

    def want(self, subject: str, fact: Fact, revision: int, generation: int = 0) -> None:
        """Have a fact stand under a subject, since the cluster's ``revision``."""
        text = _text(fact)
        record = self._records.get(subject)
        if record is None:
            if text.gone:
                return
            record = self._record(subject)
        record.generation = generation
        record.wanted = text
        record.data = encode(fact)
        self._look(subject, record, revision)

    def is_there(self, subject: str) -> bool:
        """Whether an object stands under the subject, or is about to."""
        record = self._records.get(subject)
        return record is not None and record.there

    def older_than(self, generation: int) -> Iterator[str]:
        """Yield the subjects of objects that nobody has wanted since ``generation`` began."""
        return (
            subject
            for subject, record in list(self._records.items())
            if record.generation < generation and record.there and subject not in self._unconditional
        )

    def open_before(self, ticket: int) -> bool:
        """Whether anything that was opened by then still is."""
        return bool(self.open) and next(iter(self.open.values())).ticket <= ticket

    def objects(self) -> int:
        """Return how many objects stand on the bus, or are about to."""
        return sum(record.there for record in self._records.values())

    def take(self) -> tuple[list[Write], list[ReadBack]]:
        """Return what is to be written and read now."""
        writes: list[Write] = []
        while self._queue and self._in_flight < self._limit:
            subject = self._queue.popleft()
            record = self._records.get(subject)
            if record is None:
                continue
            record.queued = False
            if record.busy or record.settled or record.wanted is None:
                continue
            record.in_flight = record.wanted
            self._in_flight += 1
            expected = None if subject in self._unconditional else record.sequence
            writes.append(Write(subject, record.data, expected, TOMBSTONE_SECONDS if record.wanted.gone else None))
        reads, self._reads = self._reads, []
        return writes, [ReadBack(subject) for subject in reads]

    def acknowledged(self, subject: str, sequence: int) -> None:
        """A write was done."""
        record, text = self._landed(subject)
        if sequence > record.sequence:
            record.sequence, record.standing, record.foreign = sequence, text, False
        elif sequence == record.sequence:
            record.foreign = False
        self._look(subject, record)

    def unclear(self, subject: str) -> None:
        """A write met another one, or nobody knows whether it was done: see what stands there before anything else."""
        record, _ = self._landed(subject)
        record.reading = True
        self._reads.append(subject)

    def read_back(self, subject: str, sequence: int, fact: Fact | None) -> None:
        """Take the answer to a :class:`ReadBack`; sequence 0: nothing stands there."""
        record = self._records[subject]
        record.reading = False
        if sequence:
            self.stands(subject, sequence, fact, foreign=True)
        else:  # a tombstone whose time was over
            record.sequence, record.standing = 0, None
        self._look(subject, record)

    def refused(self, subject: str) -> None:
        """A write can never be done: leave the subject as it is until something else is wanted there."""
        record, text = self._landed(subject)
        record.standing = text
        self._look(subject, record)

    def _landed(self, subject: str) -> tuple[_Record, _Text]:
        record = self._records[subject]
        text, record.in_flight = record.in_flight, None
        assert text is not None
        self._in_flight -= 1
        return record, text

    def _record(self, subject: str) -> _Record:
        return self._records.setdefault(subject, _Record())

    def _look(self, subject: str, record: _Record, revision: int = 0) -> None:
        """Write what has to be written, unless an answer is awaited."""
        if record.settled and not record.busy:
            self.open.pop(subject, None)
            if not record.there and subject.startswith("cluster.pod."):
                del self._records[subject]  # a uid never comes again
            return
        if not record.settled and subject not in self.open:
            self.ticket += 1
            self.open[subject] = Opened(revision, self.ticket)
        if not record.busy and not record.queued:
            record.queued = True
            self._queue.append(subject)


def _text(fact: Fact) -> _Text:
    digest = hashlib.blake2b(encode(msgspec.structs.replace(fact, revision="")), digest_size=16).digest()
    return _Text(digest, int(fact.revision) if fact.revision.isdecimal() else 0, isinstance(fact, Gone))
