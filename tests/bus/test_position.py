"""Comparing what a reader remembers with what a stream holds: any loss that concerns it is found, and nothing else."""

from deviceshare_bus.cores.position import Position, Stored
from hypothesis import given
from hypothesis import strategies as st

SUBJECTS = "abcde"
writes = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.booleans()), max_size=30)


class Log:
    """A stream that keeps the last message of each subject."""

    def __init__(self) -> None:
        self.sequence = 0
        self.time = 0
        self.last: dict[str, Stored] = {}

    def write(self, subject: str, *, expires: bool) -> Stored:
        self.sequence += 1
        self.time += 1
        self.last[subject] = Stored(self.sequence, self.time, expires)
        return self.last[subject]


def contents(messages: dict[str, Stored]) -> dict[str, Stored]:
    """Return what stays: whether a message that expires is still there tells nothing."""
    return {subject: message for subject, message in messages.items() if not message.expires}


@given(kept=writes, lost=writes, new=writes, missed=writes, vanished=st.sets(st.sampled_from(SUBJECTS)))
def test_a_reader_that_goes_on_knows_what_the_stream_holds(kept, lost, new, missed, vanished) -> None:
    position = Position()
    known: dict[str, Stored] = {}
    log = Log()

    def deliver(subject: str, message: Stored) -> None:
        position.received(subject, message, b"")
        known[subject] = message

    for subject, expires in kept:
        deliver(subject, log.write(subject, expires=expires))
    end, before = log.sequence, dict(log.last)
    for subject, expires in lost:
        deliver(subject, log.write(subject, expires=expires))
    # The store falls back, and is written again at later times.
    log.sequence, log.last = end, before
    log.last = {subject: message for subject, message in before.items() if subject not in vanished}
    for subject, expires in new + missed:
        log.write(subject, expires=expires)
    agrees = log.sequence >= position.sequence and not position.differences(log.last)
    if agrees:  # the reader goes on after its position
        for subject, message in sorted(log.last.items(), key=lambda item: item[1].sequence):
            if message.sequence > position.sequence:
                deliver(subject, message)
        assert contents(known) == contents(log.last)
    if not lost and not (vanished & contents(before).keys() - {subject for subject, _ in new + missed}):
        assert agrees  # nothing was lost


def test_a_message_that_all_messages_of_a_history_follow() -> None:
    position = Position()
    assert not position.misses_last(None, b"", 1)
    position.received("a", Stored(5, 50), b"data")
    assert not position.misses_last(Stored(5, 50), b"data", 1)
    assert position.misses_last(Stored(5, 51), b"data", 1)
    assert position.misses_last(Stored(5, 50), b"bit flip", 1)
    assert position.misses_last(None, b"", 5)
    assert not position.misses_last(None, b"", 6), "limits of age and size removed it"
