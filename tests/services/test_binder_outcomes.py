"""Outcomes of claims on the bus: how they are written, and to which claims they belong."""

import msgspec
import pytest
from deviceshare.model import Outcome
from deviceshare_binder.core.commands import BindPod
from deviceshare_binder.core.outcomes import FOLD, Outcomes
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Count, Log, Write
from deviceshare_bus.messages.subjects import outcome as subject_of
from deviceshare_cluster.interface import BindState
from support.binder import expected, messages
from support.binder_scene import READY, claim, of, pod, started, states


def test_outcomes_that_the_bus_refuses_are_reported_and_sent_again_later():
    core = started(claim(), pods=[pod(node="n1")])
    assert states(core.take(0.0)) == {"c1": ("bound", "")}
    core.outcomes_refused("n1", "too large")
    assert Count("outcomes_refused") in core.notes
    assert [one.level for one in core.notes if isinstance(one, Log) and one.message != "pod bound"] == ["error"]
    assert of(Write, core.take(0.5)) == []
    assert core.open_work == 0
    assert core.next_due() == 1.0
    assert states(core.take(1.0)) == {"c1": ("bound", "")}
    core.outcomes_refused("n1", "too large")
    assert core.next_due() == 3.0


def test_outcomes_are_folded_while_a_write_is_in_flight():
    claims = [claim(f"c{n}", f"u{n}") for n in range(4)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(4)])
    assert len(of(BindPod, core.take(0.0))) == 4
    core.bind_answered("c0", BindState.BOUND, "n1", "", 0.5)
    core.take(0.5)
    now = 0.5 + FOLD
    (first,) = of(Write, core.take(now))
    for n in (1, 2, 3):
        core.bind_answered(f"c{n}", BindState.BOUND, "n1", "", now)
        assert not of(Write, core.take(now))
    core.ledger("n1", claims[1:])  # the first claim has left the ledger meanwhile
    core.outcomes_written("n1", 5)
    (second,) = of(Write, core.take(now + 1.0))
    assert expected(first) == 0
    assert expected(second) == 5
    assert [one.claim for one in messages([second])[0].outcomes] == ["c1", "c2", "c3"]


def test_a_conflict_is_read_back_and_merged():
    core = started(claim(), claim("c2", "u2"), pods=[pod(), pod("u2")])
    core.take(0.0)
    core.bind_answered("c1", BindState.BOUND, "n1", "", 0.5)
    core.take(0.5)
    now = 0.5 + FOLD
    (write,) = of(Write, core.take(now))
    core.outcomes_unclear("n1")
    assert core.take(now) == []
    theirs = messages([write])[0].outcomes[0]
    core.outcomes_read("n1", 9, {"c2": msgspec.structs.replace(theirs, claim="c2", uid="u2", state="refused")})
    (again,) = of(Write, core.take(now))
    assert expected(again) == 9
    assert {(one.claim, one.state) for one in messages([again])[0].outcomes} == {("c1", "bound"), ("c2", "refused")}


def outcome(identity="c1", uid="u1", state="bound"):
    return Outcome(identity, uid, state, "", 1.0)


@pytest.mark.parametrize("state", ["bound", "refused", "withdrawn"])
def test_an_outcome_of_another_pod_does_not_answer_for_a_claim_of_the_same_id(state):
    core = started(claim(), pods=[pod()], outcomes=[outcome(uid="another", state=state)])
    (bind,) = of(BindPod, core.take(0.0))
    assert bind.uid == "u1"
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    (write,) = messages(of(Write, core.take(1.0)))
    assert [(one.claim, one.uid, one.state) for one in write.outcomes] == [("c1", "u1", "bound")]


def test_outcomes_of_other_pods_are_not_written_again():
    core = started(
        claim(), claim("c2", "u2"), pods=[pod(), pod("u2")], outcomes=[outcome("c2", "another"), outcome("c1", "u1")]
    )
    (bind,) = of(BindPod, core.take(0.0))
    assert bind.uid == "u2"
    core.bind_answered("c2", BindState.BOUND, "n1", "", 1.0)
    (write,) = messages(of(Write, core.take(1.0)))
    assert {(one.claim, one.uid) for one in write.outcomes} == {("c1", "u1"), ("c2", "u2")}


def test_a_claim_under_the_id_of_another_nodes_claim_does_not_replace_it():
    core = started(claim(), pods=[pod(), pod("u2")], nodes=[READY, NodeView(name="n2")])
    core.ledger("n2", [claim(uid="u2")])
    (bind,) = of(BindPod, core.take(0.0))
    assert (bind.uid, bind.node) == ("u1", "n1")


def test_a_claim_under_the_id_of_an_earlier_claim_is_bound_for_its_own_pod():
    core = started(claim(), pods=[pod(), pod("u2")])
    assert len(of(BindPod, core.take(0.0))) == 1
    core.ledger("n1", [claim(uid="u2")])
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    core.ledger("n1", [claim(uid="u2")])
    (bind,) = of(BindPod, core.take(1.0))
    assert bind.uid == "u2"


def test_a_node_that_is_not_known_is_not_remembered_because_its_outcomes_were_read_back():
    outcomes = Outcomes(lambda node: True)
    assert outcomes.read_back(subject_of("gone"), 0) is None
    assert not outcomes.nodes
