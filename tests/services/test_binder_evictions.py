"""Evictions: what is asked, who is evicted, what is reported, and when a nominated claim is bound."""

import itertools

import pytest
from deviceshare.model import BLOCKED, FORBIDDEN, MAY_GO, ConfigFact, ContainerGrant, DeviceGrant, Eviction, Outcome
from deviceshare_binder.core.commands import BindPod, EvictPod, FencePod, Nominate, RecordEvent
from deviceshare_binder.core.events import PodGroupChanged, SchedulerConfigured
from deviceshare_binder.core.evictions import AGAIN, IN_FLIGHT
from deviceshare_binder.core.views import PodGroupView
from deviceshare_bus.cores.core import Count, Log
from deviceshare_cluster.eviction import EvictState
from deviceshare_cluster.interface import BindState, EventRecord
from msgspec.structs import replace
from support.binder import BinderDriver, messages
from support.binder_scene import READY, claim, of, pod, started

NEEDS = "The disruption budget b needs 1 healthy pods and has 1 currently"


def eviction(uid="v1", identity="c1", **fields):
    return Eviction(
        uid=uid, namespace="team", name=f"pod-{uid}", claim=identity, preemptor="default/pod-u1", action="preempt",
        queue="research", owner=("Job", "team/train"), **fields,
    )  # fmt: skip


def victim(uid="v1", **fields):
    return replace(pod(uid, node="n1", running=True, **fields), namespace="team")


def scene(*evictions, pods=(), claims=None, **arguments):
    """Return a core with a nominated claim of u1 on n1 and these evictions there."""
    core = started(pods=[pod(), *pods], **arguments)
    nominated = claim(waits_for=tuple(each.uid for each in evictions))
    core.ledger("n1", [nominated] if claims is None else claims, evictions)
    return core


def outcomes(commands):
    return {(each.claim, each.uid): (each.state, each.reason) for one in messages(commands) for each in one.outcomes}


def events(core):
    return [each.record for each in core.written_reports() if isinstance(each, RecordEvent)]


def asked(core, now):
    """Return the only request to evict a pod."""
    (request,) = of(EvictPod, core.take(now))
    return request


def test_a_pod_that_may_go_is_asked_for_once_and_not_evicted():
    core = scene(eviction(), pods=[victim()])
    request = asked(core, 0.0)
    assert (request.uid, request.namespace, request.name, request.dry_run) == ("v1", "team", "pod-v1", True)
    assert core.take(0.0) == []
    core.evict_answered(request, EvictState.MAY_GO, 1.0)
    assert outcomes(core.take(1.0)) == {("c1", "v1"): (MAY_GO, "")}
    core.outcomes_written("n1", 1)
    assert core.take(1000.0) == []
    assert core.open_work == 0


def test_a_budget_that_refuses_is_named_in_the_outcome_and_to_the_preemptor():
    core = scene(eviction(), pods=[victim()])
    core.evict_answered(asked(core, 0.0), EvictState.BLOCKED, 1.0, NEEDS)
    assert outcomes(core.take(1.0)) == {("c1", "v1"): (BLOCKED, NEEDS)}
    (_, blocked) = events(core)
    assert (blocked.reason, blocked.namespace, blocked.name, blocked.uid) == (
        "PreemptionBlocked", "default", "pod-u1", "u1",
    )  # fmt: skip
    assert blocked.warning
    assert blocked.message == f"pod team/pod-v1 on node n1 cannot be evicted: {NEEDS}"
    assert Count("preemption_blocked:budget") in core.notes


def test_a_blocked_pod_is_asked_for_again_after_a_minute_as_long_as_it_is_in_the_ledger():
    core = scene(eviction(), pods=[victim()])
    core.evict_answered(asked(core, 0.0), EvictState.BLOCKED, 0.0, NEEDS)
    core.take(0.0)
    core.outcomes_written("n1", 1)
    core.written_reports()
    assert core.open_work == 0
    core.pod("v1", victim(succeeded=True))
    assert core.take(AGAIN - 0.1) == []
    core.evict_answered(asked(core, AGAIN), EvictState.MAY_GO, AGAIN)
    assert outcomes(core.take(AGAIN)) == {("c1", "v1"): (MAY_GO, "")}
    core.outcomes_written("n1", 2)
    core.ledger("n1", [])
    assert core.take(10 * AGAIN) == []


@pytest.mark.parametrize("state", [EvictState.GONE, EvictState.DONE])
@pytest.mark.parametrize("go", [True, False])
def test_a_pod_that_is_gone_may_go(state, go):
    core = scene(eviction(go=go))
    core.evict_answered(asked(core, 0.0), state, 0.0)
    assert outcomes(core.take(0.0)) == {("c1", "v1"): (MAY_GO, "")}
    assert of(EvictPod, core.take(1000.0)) == []


@pytest.mark.parametrize("how", ["terminating", "ended"])
@pytest.mark.parametrize("go", [True, False])
def test_a_pod_that_goes_already_is_not_requested(how, go):
    core = scene(eviction(go=go), pods=[victim(**{how: True})])
    commands = core.take(0.0)
    assert of(EvictPod, commands) == []
    assert outcomes(commands) == {("c1", "v1"): (MAY_GO, "")}
    assert of(EvictPod, core.take(1000.0)) == []


def test_with_go_the_pod_is_evicted_and_an_event_says_for_which_pod():
    grant = ContainerGrant("c", 0, "hami-vgpu", (DeviceGrant("GPU-1", 0, 40000, 0),))
    nominated = claim(waits_for=("v1",), queue="research", grants=(grant,))
    core = scene(eviction(), pods=[victim()], claims=[nominated])
    core.evict_answered(asked(core, 0.0), EvictState.MAY_GO, 0.0)
    core.take(0.0)
    core.ledger("n1", [nominated], [eviction(go=True)])
    request = asked(core, 1.0)
    assert (request.uid, request.dry_run) == ("v1", False)
    core.evict_answered(request, EvictState.DONE, 1.0)
    assert of(EvictPod, core.take(1.0)) == []
    (_, preempted) = events(core)
    assert (preempted.reason, preempted.namespace, preempted.name, preempted.uid) == (
        "Preempted", "team", "pod-v1", "v1",
    )  # fmt: skip
    assert not preempted.warning
    assert preempted.message == (
        "Preempted by pod default/pod-u1 (uid u1) on node n1 for preempt, queue research: 40000 MiB of card GPU-1"
    )
    assert core.notes.count(Count("preemption_victims:preempt\nresearch\nJob\nteam/train")) == 1
    assert of(EvictPod, core.take(1000.0)) == [], "facts will show it"


def test_the_pod_group_of_an_evicted_pod_has_an_event_as_of_volcano():
    core = scene(eviction(go=True), eviction("v2", go=True), pods=[victim(), victim("v2", group="team/train")])
    core.handle(PodGroupChanged("team/train", PodGroupView(key="team/train", uid="pg")), 0.0)
    for request in of(EvictPod, core.take(0.0)):
        core.evict_answered(request, EvictState.DONE, 0.0)
    core.take(0.0)
    found = [each for each in events(core) if each.kind == "PodGroup"]
    assert found == [EventRecord("PodGroup", "team", "train", "pg", False, "Evict", "preempt", found[0].at)]


def test_go_while_the_question_is_in_flight_evicts_after_the_answer():
    core = scene(eviction(), pods=[victim()])
    question = asked(core, 0.0)
    core.ledger("n1", [claim(waits_for=("v1",))], [eviction(go=True)])
    assert of(EvictPod, core.take(0.0)) == []
    core.evict_answered(question, EvictState.BLOCKED, 1.0, NEEDS)
    assert not asked(core, 1.0).dry_run


def test_a_budget_that_refuses_later_is_asked_with_pauses_until_the_time_is_over():
    core = scene(eviction(go=True), pods=[victim()])
    attempts, now, found = [], 0.0, {}
    while not found:
        for request in of(EvictPod, core.take(now)):
            attempts.append(now)
            core.evict_answered(request, EvictState.BLOCKED, now, NEEDS)
        found = outcomes(core.take(now))
        now = max(now, core.next_due() or now)
    assert found == {("c1", "v1"): (BLOCKED, NEEDS)}
    assert attempts[-1] >= 300.0
    assert attempts[:5] == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert all(later - earlier <= 15.0 for earlier, later in itertools.pairwise(attempts))
    assert [each.reason for each in events(core)].count("PreemptionBlocked") == 1


def test_the_time_is_that_of_the_configuration():
    core = scene(eviction(go=True), pods=[victim()])
    text = "tiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.PreemptionTimeoutSeconds: 0}}]}]"
    core.handle(SchedulerConfigured(ConfigFact(name="scheduler", text=text)))
    core.evict_answered(asked(core, 0.0), EvictState.BLOCKED, 0.0, NEEDS)
    assert outcomes(core.take(0.0)) == {("c1", "v1"): (BLOCKED, NEEDS)}


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("answer", ["failed", EvictState.REFUSED, EvictState.FORBIDDEN])
def test_what_is_not_permitted_is_reported_once_and_not_tried_for_a_minute(go, answer):
    found = FORBIDDEN if answer is EvictState.FORBIDDEN else BLOCKED
    core = scene(eviction(go=go), pods=[victim()])
    for now in (0.0, AGAIN):
        request = asked(core, now)
        if answer == "failed":
            core.evict_failed(request, now, final=True)
        else:
            core.evict_answered(request, answer, now, "forbidden")
        state = outcomes(core.take(now))
        assert state == ({("c1", "v1"): (found, "forbidden")} if not now else {})
        if not now:
            core.outcomes_written("n1", 1)
        assert core.take(now + AGAIN - 0.1) == []
    assert [each.reason for each in events(core)].count("PreemptionBlocked") == 1
    assert core.notes.count(Count("preemption_blocked:forbidden")) == 1
    assert sum(isinstance(each, Log) and "cannot be evicted" in each.message for each in core.notes) == 1


def test_an_unanswered_request_is_repeated_with_pauses():
    core = scene(eviction(go=True), pods=[victim()])
    now, pauses = 0.0, []
    core.evict_failed(asked(core, now), now)
    core.written_reports()
    for _ in range(8):
        core.take(core.now)
        due = core.next_due()
        assert of(EvictPod, core.take(due - 0.001)) == []
        pauses.append(due - now)
        now = due
        core.evict_failed(asked(core, now), now)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_a_nominated_claim_is_not_bound_before_it_opens():
    core = scene(eviction(), pods=[victim()])
    core.evict_answered(asked(core, 0.0), EvictState.MAY_GO, 0.0)
    assert of(BindPod | FencePod, core.take(100.0)) == []
    core.ledger("n1", [claim()])
    assert of(BindPod, core.take(101.0))


def test_a_nominated_claim_does_not_count_on_its_cards():
    core = started(pods=[pod(), pod("u2")])
    shares = core.core._claims.facts.shares
    grant = ContainerGrant("c", 0, "hami-vgpu", (DeviceGrant("GPU-1", 0, 40000, 0),))
    other = claim("c2", "u2", grants=(grant,))
    core.ledger("n1", [claim(grants=(grant,), waits_for=("v1",)), other])
    assert shares.of_others(other, "n1") == {"GPU-1": []}
    core.ledger("n1", [claim(grants=(grant,)), other])
    assert len(shares.of_others(other, "n1")["GPU-1"]) == 1
    core.ledger("n1", [other])
    assert shares.of_others(other, "n1") == {"GPU-1": []}


def test_why_the_pod_of_a_nominated_claim_waits_is_reported():
    core = scene(eviction(), pods=[victim()])
    core.explain("u1", "nominated on n1; waits for team/pod-v1")
    assert "nominated on n1; waits for team/pod-v1" in {each.message for each in events(core)}


def test_the_nominated_node_is_written_and_withdrawn_with_the_claim():
    core = scene(eviction(), pods=[victim()])
    core.take(0.0)
    (write,) = of(Nominate, core.reports)
    assert (write.namespace, write.name, write.uid, write.node, write.withdraw) == (
        "default", "pod-u1", "u1", "n1", False,
    )  # fmt: skip
    (event,) = events(core)
    assert (event.reason, event.uid, event.message) == (
        "Nominated", "u1", "Nominated on node n1: 1 pod has to go first",
    )  # fmt: skip
    core.ledger("n1", [claim()])
    core.take(1.0)
    core.ledger("n1", [])
    core.take(2.0)
    (write,) = of(Nominate, core.reports)
    assert (write.node, write.withdraw) == ("n1", True)


def test_the_nominated_node_of_a_bound_pod_stays():
    core = scene(eviction(), pods=[victim()])
    core.take(0.0)
    core.pod("u1", pod(node="n1"))
    core.reports.clear()
    core.ledger("n1", [])
    core.take(1.0)
    assert of(Nominate, core.reports) == []


def test_an_eviction_that_leaves_the_ledger_is_not_requested_any_more():
    core = scene(eviction(go=True), pods=[victim()])
    request = asked(core, 0.0)
    core.ledger("n1", [])
    core.evict_answered(request, EvictState.BLOCKED, 0.0, NEEDS)
    assert of(EvictPod, core.take(1000.0)) == []
    assert core.open_work == 0


def test_a_pod_that_was_evicted_counts_though_its_eviction_has_left_the_ledger():
    core = scene(eviction(go=True), pods=[victim()])
    request = asked(core, 0.0)
    core.ledger("n1", [])
    core.evict_answered(request, EvictState.DONE, 0.0)
    core.take(0.0)
    assert core.notes.count(Count("preemption_victims:preempt\nresearch\nJob\nteam/train")) == 1
    assert [(each.reason, each.uid) for each in events(core)][-1] == ("Preempted", "v1")


def test_an_eviction_that_goes_on_for_another_claim_is_not_begun_again():
    core = scene(eviction(go=True), pods=[victim(), pod("u2")])
    core.evict_answered(asked(core, 0.0), EvictState.DONE, 0.0)
    core.take(0.0)
    core.outcomes_written("n1", 1)
    core.ledger("n1", [claim("c2", uid="u2", waits_for=("v1",))], [eviction(identity="c2", go=True)])
    assert of(EvictPod, core.take(1.0)) == []
    core.pod("v1", victim(terminating=True))
    assert outcomes(core.take(1.0)) == {("c2", "v1"): (MAY_GO, "")}


def test_an_eviction_whose_request_is_under_way_goes_on_for_another_claim_and_counts_once():
    core = scene(eviction(go=True), pods=[victim(), pod("u2")])
    request = asked(core, 0.0)
    core.ledger("n1", [claim("c2", uid="u2", waits_for=("v1",))], [eviction(identity="c2", go=True)])
    assert of(EvictPod, core.take(0.1)) == []
    core.evict_answered(request, EvictState.DONE, 0.2)
    assert outcomes(core.take(0.2)) == {("c2", "v1"): (MAY_GO, "")}
    assert core.notes.count(Count("preemption_victims:preempt\nresearch\nJob\nteam/train")) == 1


def test_a_blocked_eviction_that_goes_on_for_another_claim_keeps_its_pause():
    core = scene(eviction(go=True), pods=[victim(), pod("u2")])
    request = asked(core, 0.0)
    core.ledger("n1", [claim("c2", uid="u2", waits_for=("v1",))], [eviction(identity="c2", go=True)])
    core.evict_answered(request, EvictState.BLOCKED, 0.2, NEEDS)
    assert of(EvictPod, core.take(0.2)) == []
    core.ledger("n1", [claim("c3", uid="u2", waits_for=("v1",))], [eviction(identity="c3", go=True)])
    assert of(EvictPod, core.take(0.3)) == []
    assert [each.uid for each in of(EvictPod, core.take(60.0))] == ["v1"]


def test_a_budget_that_refuses_is_not_asked_for_longer_because_an_eviction_goes_on_for_another_claim():
    core = scene(eviction(go=True), pods=[victim(), pod("u2")])
    core.evict_answered(asked(core, 0.0), EvictState.BLOCKED, 0.0, NEEDS)
    core.take(0.0)
    core.ledger("n1", [claim("c2", uid="u2", waits_for=("v1",))], [eviction(identity="c2", go=True)])
    core.evict_answered(asked(core, 299.0), EvictState.BLOCKED, 300.0, NEEDS)
    assert outcomes(core.take(300.0)) == {("c2", "v1"): (BLOCKED, NEEDS)}


def test_a_pod_counts_though_its_fact_comes_before_the_answer():
    core = scene(eviction(go=True), pods=[victim()])
    request = asked(core, 0.0)
    core.pod("v1", victim(terminating=True))
    core.evict_answered(request, EvictState.DONE, 0.0)
    assert outcomes(core.take(0.0)) == {("c1", "v1"): (MAY_GO, "")}
    assert core.notes.count(Count("preemption_victims:preempt\nresearch\nJob\nteam/train")) == 1


def test_outcomes_are_kept_as_long_as_the_evictions():
    core = scene(eviction("v1"), eviction("v2"), pods=[victim("v1"), victim("v2")])
    for request in of(EvictPod, core.take(0.0)):
        core.evict_answered(request, EvictState.MAY_GO, 0.0)
    assert outcomes(core.take(0.0)) == {("c1", "v1"): (MAY_GO, ""), ("c1", "v2"): (MAY_GO, "")}
    core.outcomes_written("n1", 1)
    # The claim is on another node, v1 has left, v3 has come.
    core.ledger("n1", [], [eviction("v2"), eviction("v3")])
    core.evict_answered(asked(core, 1.0), EvictState.BLOCKED, 1.0, NEEDS)
    assert outcomes(core.take(1.0)) == {("c1", "v2"): (MAY_GO, ""), ("c1", "v3"): (BLOCKED, NEEDS)}


def test_the_outcome_of_a_claim_and_those_of_evictions_for_it_stand_together():
    core = scene(eviction(), pods=[victim()], claims=[claim()])
    core.evict_answered(asked(core, 0.0), EvictState.MAY_GO, 0.0)
    core.bind_answered("c1", BindState.ALREADY, "n2", "", 0.0)
    assert outcomes(core.take(0.0)) == {
        ("c1", "v1"): (MAY_GO, ""),
        ("c1", "u1"): ("refused", "the pod is bound to n2"),
    }


def test_a_successor_goes_on_from_ledger_outcomes_and_facts():
    core = BinderDriver()
    core.node("n1", READY)
    core.pod("u1", pod())
    for uid in ("v1", "v2", "v3"):
        core.pod(uid, victim(uid))
    known = (Outcome("c1", "v1", MAY_GO), Outcome("c1", "v2", BLOCKED, NEEDS))
    core.outcomes("n1", 1, {each.uid: each for each in known})
    core.ledger("n1", [claim(waits_for=("v1", "v2", "v3"))], [eviction("v1"), eviction("v2"), eviction("v3")])
    assert core.take(0.0) == [], "nothing is requested before all is read"
    core.start()
    request = asked(core, 0.0)
    assert (request.uid, request.dry_run) == ("v3", True)
    core.evict_answered(request, EvictState.MAY_GO, 0.0)
    assert outcomes(core.take(0.0)) == {
        ("c1", "v1"): (MAY_GO, ""),
        ("c1", "v2"): (BLOCKED, NEEDS),
        ("c1", "v3"): (MAY_GO, ""),
    }


def test_so_many_requests_are_in_flight_and_no_more():
    many = [eviction(f"v{number}") for number in range(IN_FLIGHT + 8)]
    core = scene(*many)
    first = of(EvictPod, core.take(0.0))
    assert len(first) == IN_FLIGHT
    for request in first[:3]:
        core.evict_answered(request, EvictState.MAY_GO, 0.0)
    assert len(of(EvictPod, core.take(0.0))) == 3
