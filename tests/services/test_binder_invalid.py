"""The binder and invalid messages: only the node of an invalid message waits, and nothing is overwritten."""

import pytest
from deviceshare.model import Outcome
from deviceshare_binder.core.commands import BindPod, FencePod, SetPodCondition
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import ReadBack, Unreadable, Write
from deviceshare_bus.messages import subjects
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver
from support.binder_scene import READY, claim, of, pod, started


def two_nodes() -> BinderDriver:
    """Return a binder with a pod for a claim on each of two nodes."""
    return started(pods=[pod("u1"), pod("u2")], nodes=[READY, NodeView(name="n2")])


def invalid(subject: str, sequence: int = 7, *, newer: bool = False) -> Unreadable:
    stream = "LEDGER" if subject.startswith("ledger") else "OUTCOME"
    return Unreadable(stream, subject, sequence, "the reason", newer)


def bound(commands: list) -> list[str]:
    return [each.uid for each in of(BindPod, commands)]


@pytest.mark.parametrize(
    ("subject", "newer"),
    [(subjects.ledger("n1"), False), (subjects.ledger("n1"), True), (subjects.outcome("n1"), True)],
)
def test_nothing_is_bound_on_the_node_of_an_invalid_message_until_it_is_valid(subject: str, newer: bool) -> None:
    core = two_nodes()
    core.ledger("n1", [claim("c1", "u1")])
    core.ledger("n2", [claim("c2", "u2")])
    core.handle(invalid(subject, newer=newer))
    assert bound(core.take(0.0)) == ["u2"]
    reports = of(SetPodCondition, core.written_reports())
    stream = "LEDGER" if subject.startswith("ledger") else "OUTCOME"
    expected = f"waits on n1: the message about it in {stream} is not valid: the reason"
    assert [(each.uid, each.message) for each in reports] == [("u1", expected)]
    if subject.startswith("ledger"):
        core.ledger("n1", [claim("c1", "u1")])
    else:
        core.handle(ReadBack(subject, 0))  # an operator deleted it
    assert bound(core.take(20.0)) == ["u1"]


def test_outcomes_of_a_later_version_are_not_overwritten() -> None:
    core = two_nodes()
    core.ledger("n1", [claim("c1", "u1")])
    assert bound(core.take(0.0)) == ["u1"]
    core.handle(invalid(subjects.outcome("n1"), newer=True))
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    assert of(Write, core.take(1.0)) == []
    core.outcomes("n1", 9, {"c-x": Outcome("c-x", "x", "bound")})
    (write,) = of(Write, core.take(2.0))
    assert [each.expected for each in write.writes] == [9]


def test_other_invalid_outcomes_are_found_again_and_replaced() -> None:
    core = two_nodes()
    core.handle(invalid(subjects.outcome("n1")))
    core.ledger("n1", [claim("c1", "u1", withdraw=True)])
    (read,) = core.take(0.0)
    assert isinstance(read, FencePod)
    core.read_answered("c1", "", 1.0)
    (write,) = of(Write, core.take(1.0))
    assert [each.expected for each in write.writes] == [7]


@pytest.mark.parametrize("subject", ["outcome.x", "ledger.x", "outcome", "ledger.0.n1", "outcome.99.n1", "ledger.."])
def test_unknown_subjects_change_nothing(subject: str) -> None:
    core = two_nodes()
    core.ledger("n1", [claim("c1", "u1")])
    core.handle(invalid(subject, newer=True))
    core.handle(ReadBack(subject, 0))
    assert bound(core.take(0.0)) == ["u1"]
