"""Bindings in a chain without ticks between them, and outcomes that are folded into few messages."""

import pytest
from deviceshare.model import BOUND, Outcome
from deviceshare_binder.core.commands import BindPod
from deviceshare_binder.core.events import BindAnswered
from deviceshare_binder.core.outcomes import FOLD
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.core import RecordStep, Stopping, Write
from deviceshare_bus.subjects import PARTITIONS, partition
from deviceshare_cluster.interface import BindState
from support import handoff
from support.binder import BinderDriver, messages
from support.binder_scene import READY, claim, of, pod, started, states
from support.handoff import NOW, TO_SERVE, Cluster, vgpus

SERVED = {"deviceshare.io/served": "true"}


def answered(core, identity, now, state=BindState.BOUND, annotations=None):
    return core.handle(BindAnswered(identity, state, "n1", "", annotations), now)


def test_a_binding_that_is_served_at_once_is_followed_by_the_next_without_a_tick():
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0"]
    for before, after in (("p0", "p1"), ("p1", "p2")):
        commands = answered(cluster.core, f"claim-{before}", NOW, annotations=SERVED)
        assert [each.uid for each in of(BindPod, commands)] == [after]
    assert of(BindPod, answered(cluster.core, "claim-p2", NOW, annotations=SERVED)) == []
    steps = of(RecordStep, cluster.core.take(NOW))
    assert [(each.uid, each.name) for each in steps] == [("p0", BOUND), ("p1", BOUND), ("p2", BOUND)]


def test_the_tick_reports_what_a_chain_did_once():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    answered(cluster.core, "claim-p0", NOW, annotations=SERVED)
    assert cluster.begun() == [], "the request was returned before"
    assert not of(RecordStep, cluster.core.take(NOW))


def test_a_plugin_that_has_not_served_holds_the_chain():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    assert of(BindPod, answered(cluster.core, "claim-p0", NOW, annotations=TO_SERVE)) == []
    assert cluster.begun() == []


def test_a_binder_whose_lease_may_have_ended_does_not_continue_a_chain(monkeypatch):
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    with monkeypatch.context() as ended:
        ended.setattr(cluster.core.core._division, "may_work", lambda now: False)
        assert of(BindPod, answered(cluster.core, "claim-p0", NOW, annotations=SERVED)) == []
        assert cluster.begun() == []
    assert cluster.begun() == ["p1"]


def scene(count=3):
    claims = [claim(f"c{n}", f"u{n}") for n in range(count)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(count)])
    assert len(of(BindPod, core.take(0.0))) == count
    return core


def test_outcomes_of_a_node_are_one_message_when_nothing_is_left_to_be_bound():
    core = scene()
    for n in (0, 1):
        answered(core, f"c{n}", 0.1)
        assert not of(Write, core.take(0.1))
        assert core.open_work
    answered(core, "c2", 0.2)
    assert states(core.take(0.2)) == {f"c{n}": ("bound", "") for n in range(3)}
    assert core.next_due() is None


def test_outcomes_wait_for_a_limited_time():
    core = scene()
    answered(core, "c0", 1.0)
    assert not of(Write, core.take(1.0))
    assert core.next_due() == 1.0 + FOLD
    answered(core, "c1", 1.3)
    assert not of(Write, core.take(1.3))
    assert states(core.take(1.0 + FOLD)) == {"c0": ("bound", ""), "c1": ("bound", "")}
    core.outcomes_written("n1", 1)
    later = 1.0 + FOLD + 0.1
    assert not of(Write, core.take(later))
    answered(core, "c2", later)
    assert states(core.take(later)) == {f"c{n}": ("bound", "") for n in range(3)}


def test_bindings_that_take_seconds_are_one_message():
    core = scene(10)
    for n in range(9):
        answered(core, f"c{n}", 0.4 * n)
        assert not of(Write, core.take(0.4 * n))
    answered(core, "c9", 4.0)
    assert states(core.take(4.0)) == {f"c{n}": ("bound", "") for n in range(10)}


def test_a_refusal_is_written_at_once_with_what_waits():
    core = scene()
    answered(core, "c0", 1.0)
    core.take(1.0)
    answered(core, "c1", 1.1, BindState.GONE)
    assert states(core.take(1.1)) == {"c0": ("bound", ""), "c1": ("refused", "the pod is gone")}


@pytest.mark.parametrize("conflict", [True, False])
def test_a_write_that_failed_is_repeated_at_once_though_others_are_being_bound(conflict):
    core = scene()
    answered(core, "c0", 1.0)
    core.take(1.0)
    assert of(Write, core.take(1.0 + FOLD))
    core.outcomes_unclear("n1", conflict=conflict)
    core.outcomes_read("n1", 0, {})
    assert states(core.take(1.1 + FOLD)) == {"c0": ("bound", "")}


def test_what_finishes_during_a_write_is_written_in_time():
    core = scene()
    answered(core, "c0", 1.0)
    core.take(1.0)
    assert of(Write, core.take(1.0 + FOLD))
    finished = 1.1 + FOLD
    answered(core, "c1", finished)
    core.take(finished)
    core.outcomes_written("n1", 1)
    assert not of(Write, core.take(finished + 0.1))
    assert finished < core.next_due() <= finished + FOLD
    assert states(core.take(core.next_due())) == {"c0": ("bound", ""), "c1": ("bound", "")}


def test_a_binder_that_stops_writes_what_waits_before_it_leaves():
    core = scene()
    answered(core, "c0", 1.0)
    core.take(1.0)
    (write,) = messages(core.handle(Stopping(), 1.1))
    assert [each.claim for each in write.outcomes] == ["c0"]


def test_a_successor_finds_bindings_whose_outcome_was_not_written():
    claims = [claim(f"c{n}", f"u{n}") for n in range(2)]
    core = started(*claims, pods=[pod("u0", node="n1"), pod("u1")], outcomes=())
    commands = core.take(0.0)
    assert [each.uid for each in of(BindPod, commands)] == ["u1"], "u0 was bound by its predecessor"
    answered(core, "c1", 0.1)
    assert states(core.take(0.1)) == {"c0": ("bound", ""), "c1": ("bound", "")}


def test_a_partition_is_handed_over_after_its_folded_outcomes_are_written():
    core = BinderDriver()
    owned = set(range(PARTITIONS))
    core.core._claims._owns_partition = owned.__contains__
    core.node("n1", READY)
    for uid in ("u0", "u1"):
        core.pod(uid, pod(uid))
    core.start()
    core.ledger("n1", [claim("c0", "u0"), claim("c1", "u1")])
    core.take(0.0)
    answered(core, "c0", 0.1)
    assert not of(Write, core.take(0.1))
    owned.discard(partition("n1"))
    core.core._claims.shards_changed()
    assert not core.core._claims.completed_others
    assert states(core.take(0.1)) == {"c0": ("bound", "")}, "at once"
    core.outcomes_written("n1", 1)
    assert not core.core._claims.completed_others, "a binding is in flight"
    answered(core, "c1", 0.2)
    assert not core.core._claims.completed_others, "its outcome is not written"
    assert states(core.take(0.2)) == {"c0": ("bound", ""), "c1": ("bound", "")}
    core.outcomes_written("n1", 2)
    assert core.core._claims.completed_others


def test_an_outcome_is_not_lost_when_another_message_overtakes_the_answer_to_its_write():
    core = scene()
    answered(core, "c0", 1.0)
    core.take(1.0)
    assert of(Write, core.take(1.0 + FOLD))
    core.outcomes("n1", 9, {"c1": Outcome("c1", "u1", BOUND, "", 1.0)})
    core.outcomes_written("n1", 8)
    assert states(core.take(1.1 + 2 * FOLD)) == {"c0": ("bound", ""), "c1": ("bound", "")}


def test_claims_behind_one_to_which_the_facts_object_do_not_wait_for_its_facts(monkeypatch):
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    facts = cluster.core.core._claims.facts
    monkeypatch.setattr(facts, "objection", lambda task: "no" if task.claim.uid == "p1" else "")
    assert cluster.begun() == ["p0"]
    commands = answered(cluster.core, "claim-p0", NOW, annotations=SERVED)
    assert [each.uid for each in of(BindPod, commands)] == ["p2"], "p1 was next and is not valid"


def test_a_burst_after_an_earlier_one_is_folded_too():
    core = started(claim("c0", "u0"), pods=[pod(f"u{number}") for number in range(4)])
    core.take(0.0)
    answered(core, "c0", 0.1)
    assert of(Write, core.take(0.1))
    core.outcomes_written("n1", 1)
    core.ledger("n1", [claim(f"c{number}", f"u{number}") for number in range(4)])
    core.take(5.0)
    answered(core, "c1", 5.1)
    assert not of(Write, core.take(5.1)), "c2 and c3 are being bound"
    assert of(Write, core.take(5.1 + FOLD))


def test_a_chain_does_not_continue_on_a_node_that_is_just_taken_over():
    """The other replica has bound x, of which there is no fact yet: y must not be in handoff with it."""
    core = BinderDriver(NOW)
    mine, gained = (next(f"n{i}" for i in range(1000) if partition(f"n{i}") == number) for number in (0, 1))
    owned = {0}
    core.core._claims._owns_partition = owned.__contains__
    for node in (mine, gained):
        core.node(node, NodeView(name=node))
    for uid in ("p0", "p1", "x", "y"):
        core.pod(uid, handoff.pod(uid, vgpus(2)))
    core.start()
    core.ledger(mine, [handoff.claim(uid, vgpus(2)) for uid in ("p0", "p1")])
    core.ledger(gained, [handoff.claim("x", vgpus(2))])
    core.outcomes(gained, 1, {"claim-x": Outcome("claim-x", "x", BOUND, "", NOW)})
    assert [each.uid for each in of(BindPod, core.take(NOW))] == ["p0"]
    owned.add(1)
    core.core._division.changed = True  # the other one's lease names this replica
    core.ledger(gained, [handoff.claim(uid, vgpus(2)) for uid in ("x", "y")])
    commands = core.handle(BindAnswered("claim-p0", BindState.BOUND, mine, "", SERVED), NOW)
    assert "y" not in [each.uid for each in of(BindPod, [*commands, *core.take(NOW)])]
