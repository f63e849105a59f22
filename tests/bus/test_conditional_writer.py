"""Conditional writes against a model of a stream: the writer always knows what it may write next."""

import hypothesis.strategies as st
import pytest
from deviceshare_bus.cores.conditional_writer import ConditionalWriter, Result
from deviceshare_bus.cores.core import Read, Write, WriteConflict, WriteRefused, WriteUnknown, Written
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

SUBJECTS = ("ledger.a", "ledger.b", "ledger.c")


class StreamModel(RuleBasedStateMachine):
    """A server with the last sequence of each subject, other writers, lost answers, and one conditional writer."""

    def __init__(self) -> None:
        super().__init__()
        self.writer: ConditionalWriter[str] = ConditionalWriter("LEDGER")
        self.last: dict[str, int] = {}
        self.sequence = 0
        self.in_flight: list[Write] = []
        self.reads: list[Read] = []

    def put(self, subjects: tuple[str, ...]) -> int:
        for subject in subjects:
            self.sequence += 1
            self.last[subject] = self.sequence
        return self.sequence

    @rule(subjects=st.sets(st.sampled_from(SUBJECTS), min_size=1))
    def write(self, subjects: set[str]) -> None:
        idle = sorted(subject for subject in subjects if not self.writer.busy(subject))
        if idle:
            self.in_flight.append(self.writer.write([(subject, b"") for subject in idle], "context"))

    @rule(subject=st.sampled_from(SUBJECTS))
    def other_writer(self, subject: str) -> None:
        self.put((subject,))

    @rule(subject=st.sampled_from(SUBJECTS))
    def deliver(self, subject: str) -> None:
        if subject in self.last:
            self.writer.seen(subject, self.last[subject])

    @precondition(lambda self: self.in_flight)
    @rule(answered=st.booleans(), refused=st.booleans(), arrives=st.booleans(), data=st.data())
    def answer(self, answered: bool, refused: bool, arrives: bool, data: st.DataObject) -> None:
        write = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        matches = all(self.last.get(each.subject, 0) == each.expected for each in write.writes)
        answer: Written | WriteConflict | WriteRefused | WriteUnknown
        if refused:
            answer, result = WriteRefused(write.token, "too large"), Result.REFUSED
        elif not answered:
            if arrives and matches:
                self.put(tuple(each.subject for each in write.writes))
            answer, result = WriteUnknown(write.token), Result.UNKNOWN
        elif matches:
            answer, result = (
                Written(write.token, self.put(tuple(each.subject for each in write.writes))),
                Result.WRITTEN,
            )
        else:
            answer, result = WriteConflict(write.token), Result.CONFLICT
        completed = self.writer.handle(answer)
        assert (completed.result, completed.write, completed.context) == (result, write, "context")
        self.reads += [command for command in completed.commands if isinstance(command, Read)]

    @precondition(lambda self: self.reads)
    @rule()
    def read_back(self) -> None:
        subject = self.reads.pop(0).subject
        self.writer.read_back(subject, self.last.get(subject, 0))

    @invariant()
    def at_most_one_write_or_read_of_a_subject(self) -> None:
        subjects = [each.subject for write in self.in_flight for each in write.writes]
        subjects += [read.subject for read in self.reads]
        assert len(subjects) == len(set(subjects))
        assert {subject for subject in SUBJECTS if self.writer.busy(subject)} == set(subjects)
        assert self.writer.open == len(self.in_flight) + len(self.reads)

    @invariant()
    def never_ahead_of_the_server(self) -> None:
        assert all(self.writer.sequence(subject) <= self.last.get(subject, 0) for subject in SUBJECTS)

    def teardown(self) -> None:
        while self.reads:
            self.read_back()
        for subject in SUBJECTS:
            self.deliver(subject)
            assert self.writer.sequence(subject) == self.last.get(subject, 0)


TestStreamModel = StreamModel.TestCase


def test_only_the_newest_written_messages_are_returned() -> None:
    writer: ConditionalWriter[str] = ConditionalWriter("LEDGER")
    write = writer.write([("ledger.a", b"1"), ("ledger.b", b"2")], "context")
    writer.seen("ledger.a", 9)  # another writer's, which overtook the acknowledgement
    completed = writer.handle(Written(write.token, 2))
    assert [each.subject for each in completed.newer] == ["ledger.b"]
    assert (writer.sequence("ledger.a"), writer.sequence("ledger.b")) == (9, 2)


def test_several_messages_have_no_time_to_live() -> None:
    writer: ConditionalWriter[str] = ConditionalWriter("LEDGER")
    with pytest.raises(ValueError, match="2 messages, or under a guard, cannot have a time to live"):
        writer.write([("ledger.a", b"1"), ("ledger.b", b"2")], "context", ttl=60)
    assert not writer.busy("ledger.a")
    assert writer.write([("ledger.a", b"1")], "context", ttl=60).writes[0].ttl == 60
