"""The streams of the simulated nats-server: messages by sequence, the last of each subject, roll-back."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from nats.js.api import StreamConfig

JOURNAL = 500
"""Writes by which a stream can be rolled back."""
TTL = "Nats-TTL"
"""The header of a message with a time to live, in seconds."""
KEPT = 2000
"""Messages of a stream without a limit per subject, at most."""


class Stored(NamedTuple):
    """A message of a stream; ``at`` is the unix time at which it was written."""

    sequence: int
    subject: str
    data: bytes
    at: float
    headers: Mapping[str, str] | None = None

    @property
    def nanoseconds(self) -> int:
        """When it was written, in nanoseconds of unix time."""
        return int(self.at * 1e9)

    @property
    def ttl(self) -> float | None:
        """Seconds after which it is deleted, None for never."""
        ttl = (self.headers or {}).get(TTL)
        return float(ttl) if ttl is not None else None


class Stream:
    """One stream. ``config.max_msgs_per_subject`` is 1, or there is no limit; ``created`` is a unix time."""

    def __init__(self, config: StreamConfig, created: float = 0.0) -> None:
        self.name = str(config.name)
        self.config = config
        self.created = created
        self.last_sequence = 0
        self._messages: dict[int, Stored] = {}
        """By sequence, in order."""
        self._last: dict[str, Stored] = {}
        self._journal: deque[tuple[Stored, Stored | None]] = deque(maxlen=JOURNAL)
        """The latest writes, each with the message that it replaced."""
        self._one_per_subject = config.max_msgs_per_subject == 1

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._messages.values())

    @property
    def first_sequence(self) -> int:
        """The sequence of the oldest message; the next one if there is none."""
        return next(iter(self._messages), self.last_sequence + 1)

    def get(self, sequence: int) -> Stored | None:
        """Return the message with a sequence."""
        return self._messages.get(sequence)

    def last(self, subject: str) -> Stored | None:
        """Return the last message of a subject."""
        return self._last.get(subject)

    def last_per_subject(self) -> list[Stored]:
        """Return the last message of every subject, by sequence."""
        return sorted(self._last.values())

    def last_sequence_of(self, subject: str) -> int:
        """Return the sequence of the last message of a subject, 0 for none."""
        found = self._last.get(subject)
        return found.sequence if found is not None else 0

    def write(self, subject: str, data: bytes, at: float, headers: Mapping[str, str] | None = None) -> Stored:
        """Append a message and return it."""
        self.last_sequence += 1
        stored = Stored(self.last_sequence, subject, data, at, headers)
        before = self._last.get(subject)
        if before is not None and self._one_per_subject:
            self._messages.pop(before.sequence, None)
        self._messages[stored.sequence] = self._last[subject] = stored
        self._journal.append((stored, before))
        if len(self._messages) > KEPT and not self._one_per_subject:
            del self._messages[next(iter(self._messages))]
        return stored

    def remove(self, stored: Stored) -> None:
        """Remove a message, if it is still there."""
        if self._messages.get(stored.sequence) is not stored:
            return
        del self._messages[stored.sequence]
        if self._last.get(stored.subject) is stored:
            del self._last[stored.subject]

    def roll_back(self, writes: int) -> int:
        """Undo the latest writes, as a crash of the server does to what was not synced; return how many."""
        undone = 0
        while self._journal and undone < writes:
            stored, before = self._journal.pop()
            self._messages.pop(stored.sequence, None)
            self._last.pop(stored.subject, None)
            if before is not None:
                self._messages[before.sequence] = self._last[stored.subject] = before
            self.last_sequence = stored.sequence - 1
            undone += 1
        self._messages = dict(sorted(self._messages.items()))
        return undone

    def purge(self) -> int:
        """Remove all messages and return how many; sequences go on."""
        removed = len(self._messages)
        self._messages.clear()
        self._last.clear()
        self._journal.clear()
        return removed
