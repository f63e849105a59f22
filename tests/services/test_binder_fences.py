"""Bindings expect the pod's revision, and no claim is refused or withdrawn before a fence stands on its pod."""

import pytest
from deviceshare.model import FENCE, fence_entry
from deviceshare_binder.core.commands import BindPod, FencePod, SetPodCondition
from deviceshare_binder.core.events import ClusterWritten, PodChanged
from deviceshare_bus.cores.core import Count
from deviceshare_cluster.interface import BindState, PodState
from support.binder_scene import claim, of, pod, started, states


def outcomes(commands):
    return list(states(commands).values())


def requests(commands):
    return [type(one) for one in commands if isinstance(one, BindPod | FencePod)]


def test_a_binding_expects_the_revision_of_the_fact():
    (bind,) = started(claim(), pods=[pod(revision="7")]).take(0.0)
    assert (bind.uid, bind.revision) == ("u1", "7")


def test_a_pod_without_a_revision_is_read_first():
    core = started(claim())
    core.handle(PodChanged("u1", pod()))
    assert requests(core.take(0.0)) == []
    core.read_answered("c1", "", 0.1, {}, "7")
    (bind,) = core.take(0.1)
    assert bind.revision == "7"


def test_a_binding_that_meets_another_revision_is_judged_again_and_sent_with_it():
    core = started(claim(), pods=[pod(revision="7")])
    core.take(0.0)
    core.bind_answered("c1", BindState.CHANGED, "", "", 1.0, {}, "9")
    (bind,) = core.take(1.0)
    assert bind.revision == "9"
    assert Count("bind_conflicts") in core.notes


def test_the_pauses_after_changes_grow():
    core = started(claim(), pods=[pod(revision="7")])
    now, pauses = 0.0, []
    core.take(now)
    for revision in range(8, 13):
        core.bind_answered("c1", BindState.CHANGED, "", "", now, {}, str(revision))
        due = core.next_due()
        pauses.append(round(due - now, 3))
        now = due
        (bind,) = core.take(now)
        assert bind.revision == str(revision)
    assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8]


def test_an_older_fact_does_not_set_the_revision_back():
    core = started(claim(), pods=[pod(revision="7")])
    core.take(0.0)
    core.bind_answered("c1", BindState.CHANGED, "", "", 1.0, {FENCE: "c0"}, "9")
    core.pod("u1", pod(revision="8", group="g"))
    (bind,) = core.take(1.0)
    assert bind.revision == "9"


def test_the_condition_that_the_binder_writes_gives_the_next_revision():
    core = started(claim())
    core.pod("u1", pod(revision="7"))
    core.ledger("n1", [])
    core.explain("u1", "0/1 nodes are available")
    core.accept = False
    core.take(0.0)
    (condition,) = of(SetPodCondition, core.reports)
    core.handle(ClusterWritten(condition, PodState("", {}, "8")))
    core.ledger("n1", [claim()])
    (bind,) = of(BindPod, core.take(0.1))
    assert bind.revision == "8"


def test_a_refused_binding_is_refused_after_the_fence():
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.bind_answered("c1", BindState.REFUSED, "", "a webhook says no", 1.0)
    (fence,) = done = core.take(1.0)
    assert fence == FencePod("c1", "default", "pod-u1", "u1")
    assert outcomes(done) == []
    core.failed("c1", 2.0, 0.0)  # it may stand or not
    assert outcomes(core.take(2.0)) == []
    assert requests(core.take(2.1)) == [BindPod]
    core.bind_answered("c1", BindState.CHANGED, "", "", 2.2, {FENCE: "c0,c1"}, "9")
    assert requests(core.take(2.2)) == [FencePod], "it stood, so the claim is not bound any more"
    core.read_answered("c1", "", 2.3, {FENCE: "c0,c1"}, "9")
    assert outcomes(core.take(2.3)) == [("refused", "an earlier request to bind the pod was withdrawn")]


def test_a_pod_that_was_bound_before_the_fence_keeps_its_claim():
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.bind_answered("c1", BindState.REFUSED, "", "a webhook says no", 1.0)
    core.take(1.0)
    core.read_answered("c1", "n1", 1.1)
    assert outcomes(core.take(1.1)) == [("bound", "")]


@pytest.mark.parametrize("identity", ["c1", "an id, with a comma", "x" * 300])
def test_a_claim_that_another_binder_fenced_is_not_bound_by_one_with_an_old_ledger(identity):
    core = started(claim(identity), pods=[pod(revision="9", fenced=("c0", fence_entry(identity)))])
    assert requests(core.take(0.0)) == [FencePod]
    core.read_answered(identity, "", 0.1, {FENCE: f"c0,{fence_entry(identity)}"}, "9")
    assert [state for state, _ in outcomes(core.take(0.1))] == ["refused"]


def test_the_claim_after_a_fenced_one_is_bound():
    (bind,) = started(claim("c2"), pods=[pod(revision="9", fenced=("c0", "c1"))]).take(0.0)
    assert (bind.claim, bind.revision) == ("c2", "9")


def test_a_fence_that_the_cluster_does_not_permit_gives_no_outcome():
    core = started(claim(withdraw=True), pods=[pod()])
    for _ in range(5):
        now = core.next_due() or 0.0
        done = core.take(now)
        assert requests(done) == [FencePod]
        assert outcomes(done) == []
        core.failed("c1", now, 0.0, final=True)
    assert core.open_work
