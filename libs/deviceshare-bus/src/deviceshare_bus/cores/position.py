"""What a reader remembers of a stream, to detect that the stream was rolled back. Pure.

nats-server may lose the end of a stream, for instance after a power loss, and number new messages like the lost ones.
A sequence alone does not identify a message; its sequence and the server's timestamp (nanoseconds) do.

The reader remembers the last message of each subject. After the server may have lost messages, it compares them with
the last message of each subject in the stream (:meth:`Position.differences`). A subject agrees if its last message is
the remembered one, or comes after the position: it will be delivered. If all subjects agree, what the reader knows is
what the stream holds, whatever was lost before and written since. Comparing the message at the position alone is not
enough: it may have been replaced, in the old history or in the new one.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Stored(NamedTuple):
    """A message in a stream: its sequence, and when the server stored it (nanoseconds of unix time).

    ``expires``: the server deletes it after a time to live.
    """

    sequence: int
    time: int
    expires: bool = False


_SEQUENCE_BITS = 64


def _number(message: Stored) -> int:
    """Return a message that stays as one number: a reader remembers one for each object of the cluster."""
    return message.time << _SEQUENCE_BITS | message.sequence


def _stored(number: int) -> Stored:
    return Stored(number & (1 << _SEQUENCE_BITS) - 1, number >> _SEQUENCE_BITS)


class Known(NamedTuple):
    """What a reader of the last messages of subjects knows: up to which sequence, and of which messages that stay.

    ``subjects``: their number; ``oldest``: the sequence of the oldest one, 0 if there is none.
    """

    sequence: int
    subjects: int
    oldest: int

    def lacks(self, messages: int, first: int, last: int) -> bool:
        """Return whether messages have vanished from a stream with so many messages from ``first`` to ``last``.

        Fewer may be left than are remembered. Messages with a time to live, such as leases, hide that: where nothing
        has come since, the stream begins at the oldest message that is remembered, or before it.
        """
        return messages < self.subjects or (last == self.sequence and 0 < self.oldest < first)


class Position:
    """How far a reader is in a stream, and the last message that it received of each subject.

    Messages with a time to live are not remembered: the server deletes them by itself. So the memory is bounded by the
    number of subjects with a message that stays.
    """

    def __init__(self) -> None:
        self.sequence = 0
        """The sequence up to which everything was received."""
        self.last: Stored | None = None
        """The last message received."""
        self.last_data = b""
        self._messages: dict[str, int] = {}
        """The last message of each subject (:func:`_number`), in the order of their sequences."""

    @property
    def known(self) -> Known:
        """What is known now."""
        oldest = next(iter(self._messages.values()), 0)
        return Known(self.sequence, len(self._messages), _stored(oldest).sequence)

    def received(self, subject: str, message: Stored, data: bytes) -> None:
        """Record a message."""
        self.sequence = message.sequence
        self.last = message
        self.last_data = data
        self._messages.pop(subject, None)
        if not message.expires:
            self._messages[subject] = _number(message)

    def differences(self, present: Mapping[str, Stored]) -> list[str]:
        """Return the subjects whose last message is neither the remembered one nor one that will be delivered.

        ``present``: the last message of each subject in the stream.
        """
        missing = [
            subject
            for subject, message in self._messages.items()
            if (found := present.get(subject)) is None or not self.agrees(subject, _stored(message), found)
        ]
        unknown = [
            subject
            for subject, found in present.items()
            if subject not in self._messages and not self.agrees(subject, None, found)
        ]
        return missing + unknown

    def confirms(self, subject: str, found: Stored | None) -> bool:
        """Return whether a subject agrees, by its last message in the stream; None: it has none."""
        remembered = self._messages.get(subject)
        if found is None:
            return remembered is None
        return self.agrees(subject, None if remembered is None else _stored(remembered), found)

    def agrees(self, subject: str, remembered: Stored | None, found: Stored) -> bool:
        """Return whether a message of the stream is the remembered one or comes after the position."""
        if found.sequence > self.sequence:
            return True
        if remembered is None:
            return found.expires
        return (found.sequence, found.time) == (remembered.sequence, remembered.time)

    def misses_last(self, found: Stored | None, data: bytes, first: int) -> bool:
        """Return whether the message at the position is another one now, for a stream that keeps all messages.

        ``found``: the message at the sequence of :attr:`last`, None if it is gone; ``first``: the first sequence of the
        stream, before which limits of age and size have removed messages.
        """
        if self.last is None:
            return False
        if found is None:
            return first <= self.last.sequence
        return (found.sequence, found.time, data) != (self.last.sequence, self.last.time, self.last_data)
