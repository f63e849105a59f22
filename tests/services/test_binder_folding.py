"""Bindings in a chain without ticks between them, and outcomes that are folded into few messages."""

import heapq
import random

import pytest
from deviceshare.model import BOUND, Outcome
from deviceshare_binder.core import reporting
from deviceshare_binder.core.commands import BindPod, RecordEvent
from deviceshare_binder.core.events import BindAnswered
from deviceshare_binder.core.outcomes import FOLD, PAUSE
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Count, RecordStep, Stopping, Write
from deviceshare_bus.messages.subjects import PARTITIONS, partition
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
    later = 1.0 + FOLD + PAUSE
    assert not of(Write, core.take(later))
    answered(core, "c2", later)
    assert states(core.take(later)) == {f"c{n}": ("bound", "") for n in range(3)}


def test_pods_that_arrive_one_after_the_other_write_their_outcomes_together():
    core = scene()
    answered(core, "c0", 1.0)
    answered(core, "c1", 1.0)
    answered(core, "c2", 1.0)
    assert len(states(core.take(1.0))) == 3, "the first ones do not wait"
    core.outcomes_written("n1", 1)
    claims = [claim(f"c{n}", f"u{n}") for n in range(6)]
    for n in (3, 4, 5):
        now = 1.0 + 0.01 * n
        core.pod(f"u{n}", pod(f"u{n}"))
        core.ledger("n1", claims[: n + 1])
        assert len(of(BindPod, core.take(now))) == 1
        answered(core, f"c{n}", now)
        assert not of(Write, core.take(now))
        assert core.core._claims.outcomes.next_due() == 1.03 + PAUSE
        assert core.open_work
    assert states(core.take(1.03 + PAUSE)) == {f"c{n}": ("bound", "") for n in range(6)}
    core.outcomes_written("n1", 2)
    assert core.core._claims.outcomes.next_due() is None


def test_a_refusal_does_not_wait_for_the_pause():
    core = scene()
    for n in (0, 1):
        answered(core, f"c{n}", 1.0)
    core.take(1.0 + FOLD)
    core.outcomes_written("n1", 1)
    answered(core, "c2", 1.1 + FOLD, BindState.GONE)
    assert states(core.take(1.1 + FOLD))["c2"] == ("refused", "the pod is gone")


def test_bindings_that_take_seconds_are_one_message():
    core = scene(10)
    for n in range(9):
        answered(core, f"c{n}", 0.4 * n)
        assert not of(Write, core.take(0.4 * n))
    answered(core, "c9", 4.0)
    assert states(core.take(4.0)) == {f"c{n}": ("bound", "") for n in range(10)}


@pytest.mark.parametrize("seed", range(20))
def test_no_outcome_waits_longer_than_the_fold_though_the_pause_delays_it(seed):
    chance, core, claims, now = random.Random(seed), started(), [], 0.0
    rate, slowest, answer = chance.choice((0.02, 0.2, 1.0)), chance.choice((0.1, 1.0, 7.0)), 0.05
    events = [(chance.uniform(0, 100 * rate), "claim", number) for number in range(100)]
    heapq.heapify(events)
    finished, waited, sequence = {}, [], 0
    while events or core.open_work:
        due = core.next_due()
        now = max(now, min(([due] if due is not None else []) + [at for at, *_ in events[:1]]))
        if events and events[0][0] <= now:
            _, kind, number = heapq.heappop(events)
            if kind == "claim":
                claims.append(claim(f"c{number}", f"u{number}"))
                core.pod(f"u{number}", pod(f"u{number}"), now)
                core.ledger("n1", claims)
            elif kind == "bound":
                finished[f"c{number}"] = now
                answered(core, f"c{number}", now)
            else:
                sequence += 1
                core.outcomes_written("n1", sequence)
        commands = core.take(now)
        for bind in of(BindPod, commands):
            heapq.heappush(events, (now + chance.uniform(0.0, slowest), "bound", int(bind.claim[1:])))
        for identity in states(commands):
            if identity in finished:
                waited.append(now - finished.pop(identity))
        if of(Write, commands):
            heapq.heappush(events, (now + chance.uniform(0.0, answer), "written", 0))
    assert not finished
    assert len(waited) == 100
    assert max(waited) <= FOLD + answer


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


def test_a_binder_that_stops_records_events_that_wait():
    core = scene()
    core.accept = False
    answered(core, "c0", 1.0)
    core.take(1.0)
    before = of(RecordEvent, core.reports)
    for number in (1, 2):
        answered(core, f"c{number}", 1.01)
    core.handle(Stopping(), 1.02)
    after = of(RecordEvent, core.reports)
    assert [each.record.uid for each in before] == ["u0"]
    assert [(each.record.uid, each.record.reason) for each in after] == [(f"u{n}", "Scheduled") for n in range(3)]
    assert len({each.token for each in after}) == 3


def test_a_binder_that_stops_drops_events_beyond_a_number_and_counts_them(monkeypatch):
    monkeypatch.setattr(reporting, "MAX_LAST", 2)
    core = scene()
    core.accept = False
    for number in range(3):
        answered(core, f"c{number}", 1.0)
    core.handle(Stopping(), 1.0)
    assert len(of(RecordEvent, core.reports)) == 2
    assert Count("cluster_writes_dropped", 1) in core.notes


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
