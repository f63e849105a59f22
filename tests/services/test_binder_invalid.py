"""The binder and invalid messages: only the node of an invalid message waits, and nothing is overwritten."""

import pytest
from deviceshare.model import Claim, Outcome
from deviceshare_binder.core.commands import BindPod, FencePod, SetPodCondition
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_bus.cores.core import ReadBack, Unreadable, Write
from deviceshare_bus.messages import subjects
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver


def claim(uid: str, **fields: object) -> Claim:
    return Claim(id=f"c-{uid}", uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def started() -> BinderDriver:
    """Return a binder with a claim of a pod on each of two nodes."""
    core = BinderDriver()
    for node, uid in (("n1", "u1"), ("n2", "u2")):
        core.node(node, NodeView(name=node))
        core.pod(uid, PodView(uid=uid, namespace="default", name=f"pod-{uid}"))
    core.start()
    return core


def invalid(subject: str, sequence: int = 7, *, newer: bool = False) -> Unreadable:
    stream = "LEDGER" if subject.startswith("ledger") else "OUTCOME"
    return Unreadable(stream, subject, sequence, "the reason", newer)


def bound(commands: list) -> list[str]:
    return [each.uid for each in commands if isinstance(each, BindPod)]


@pytest.mark.parametrize(
    ("subject", "newer"),
    [(subjects.ledger("n1"), False), (subjects.ledger("n1"), True), (subjects.outcome("n1"), True)],
)
def test_nothing_is_bound_on_the_node_of_an_invalid_message_until_it_is_valid(subject: str, newer: bool) -> None:
    core = started()
    core.ledger("n1", [claim("u1")])
    core.ledger("n2", [claim("u2")])
    core.handle(invalid(subject, newer=newer))
    assert bound(core.take(0.0)) == ["u2"]
    reports = [each for each in core.written_reports() if isinstance(each, SetPodCondition)]
    stream = "LEDGER" if subject.startswith("ledger") else "OUTCOME"
    expected = f"waits on n1: the message about it in {stream} is not valid: the reason"
    assert [(each.uid, each.message) for each in reports] == [("u1", expected)]
    if subject.startswith("ledger"):
        core.ledger("n1", [claim("u1")])
    else:
        core.handle(ReadBack(subject, 0))  # an operator deleted it
    assert bound(core.take(20.0)) == ["u1"]


def test_outcomes_of_a_later_version_are_not_overwritten() -> None:
    core = started()
    core.ledger("n1", [claim("u1")])
    assert bound(core.take(0.0)) == ["u1"]
    core.handle(invalid(subjects.outcome("n1"), newer=True))
    core.bind_answered("c-u1", BindState.BOUND, "n1", "", 1.0)
    assert [each for each in core.take(1.0) if isinstance(each, Write)] == []
    core.outcomes("n1", 9, {"c-x": Outcome("c-x", "x", "bound")})
    (write,) = [each for each in core.take(2.0) if isinstance(each, Write)]
    assert [each.expected for each in write.writes] == [9]


def test_other_invalid_outcomes_are_found_again_and_replaced() -> None:
    core = started()
    core.handle(invalid(subjects.outcome("n1")))
    core.ledger("n1", [claim("u1", withdraw=True)])
    (read,) = core.take(0.0)
    assert isinstance(read, FencePod)
    core.read_answered("c-u1", "", 1.0)
    (write,) = [each for each in core.take(1.0) if isinstance(each, Write)]
    assert [each.expected for each in write.writes] == [7]


@pytest.mark.parametrize("subject", ["outcome.x", "ledger.x", "outcome", "ledger.0.n1", "outcome.99.n1", "ledger.."])
def test_unknown_subjects_change_nothing(subject: str) -> None:
    core = started()
    core.ledger("n1", [claim("u1")])
    core.handle(invalid(subject, newer=True))
    core.handle(ReadBack(subject, 0))
    assert bound(core.take(0.0)) == ["u1"]
