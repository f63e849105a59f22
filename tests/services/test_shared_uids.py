"""Several pods with one uid: one of them keeps it, only the others wait, with a reason that names the owner."""

import json

import pytest
from deviceshare.model import Gone, NodeLedger, PodFact, alias, object_uid
from deviceshare_binder.core.commands import FencePod, RecordEvent, SetPodCondition
from deviceshare_binder.core.events import ClusterWritten
from deviceshare_binder.core.views import PodView
from deviceshare_binder.service import ClusterSide
from deviceshare_bus.cores.core import RecordStep
from deviceshare_bus.messages import subjects
from deviceshare_cluster.interface import Change, EventRecord, Listed, PodState
from msgspec.structs import replace
from support import builders
from support.binder_scene import claim, of, started, states
from support.inventory import gone, pod, work_off
from support.inventory import started as inventory
from support.metrics import read, snapshot_of
from support.played import Played

OTHER = alias("u1", "default/b")
PROBLEM = "Pod default/b: metadata.uid: 'u1' is not valid: expected a uid of its own: Pod default/a has the same"


def facts(bus):
    return {fact.name: fact for subject in bus.messages if isinstance(fact := bus.fact(subject), PodFact)}


def test_an_alias_is_one_token_of_a_subject_and_shows_the_uid():
    other = alias("u1", "default/b.example.com")
    assert object_uid(other) == "u1"
    assert object_uid("u1") == "u1"
    assert other != alias("u1", "default/c")
    assert "." not in other
    assert "/" not in other


def test_inventory_publishes_the_second_pod_under_an_alias_with_a_problem():
    core, bus, _ = inventory([pod("a"), pod("c", "u2")])
    (seen, record) = sorted(work_off(core, bus, pod("b", revision=2)), key=lambda each: isinstance(each, EventRecord))
    assert seen == RecordStep(OTHER, "default/b", "seen", at=1.0)
    assert (record.name, record.uid, record.message) == ("b", "u1", PROBLEM)
    found = facts(bus)
    assert {name: fact.uid for name, fact in found.items()} == {"a": "u1", "b": OTHER, "c": "u2"}
    assert found["a"].problems == ()
    assert found["b"].podgroup == ""
    assert [str(each) for each in found["b"].problems] == [PROBLEM]


def test_the_uid_is_free_again_after_its_owner_is_deleted():
    core, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    work_off(core, bus, gone("Pod", "a", 3))
    assert isinstance(bus.fact(subjects.fact("pod", OTHER)), Gone)
    assert {name: (fact.uid, fact.problems) for name, fact in facts(bus).items()} == {"b": ("u1", ())}
    assert core.open_work == 0


def test_the_owner_keeps_its_uid_when_another_is_deleted_or_made_anew():
    core, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    work_off(core, bus, pod("b", "u3", 3))
    assert {name: fact.uid for name, fact in facts(bus).items()} == {"a": "u1", "b": "u3"}
    work_off(core, bus, gone("Pod", "a", 4), gone("Pod", "b", 5))
    assert facts(bus) == {}


@pytest.mark.parametrize("restarted", [True, False])
def test_the_owner_is_the_same_after_another_list_and_after_a_restart(restarted):
    core, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    written = len(bus.log)
    again = [pod("b", revision=2), pod("a")]
    if restarted:
        core, bus, _ = inventory(again, 2, bus)
    else:
        core.begin_list()
        work_off(core, bus, *again, Listed(2))
    assert {name: fact.uid for name, fact in facts(bus).items()} == {"a": "u1", "b": OTHER}
    assert [subject for subject, *_ in bus.log[written:]] == [subjects.SYNCED]


def test_an_owner_that_vanished_between_lists_leaves_the_uid():
    core, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    core.begin_list()
    work_off(core, bus, pod("b", revision=2), Listed(5))
    assert {name: (fact.uid, fact.problems) for name, fact in facts(bus).items()} == {"b": ("u1", ())}


def test_at_the_first_list_a_bound_pod_is_the_owner_since_claims_may_be_its_own():
    both = [pod("b"), pod("a", node="n1", revision=2)]
    core, bus, _ = inventory(both, 2)
    assert subjects.SYNCED not in bus.messages, "it lists again first"
    core.begin_list()
    work_off(core, bus, *both, Listed(2))
    assert {name: fact.uid for name, fact in facts(bus).items()} == {"a": "u1", "b": OTHER}
    assert subjects.SYNCED in bus.messages


def test_placement_does_not_decide_a_pod_under_an_alias_and_places_all_others():
    played = Played()
    other = replace(builders.pod("b", builders.vgpu(1, 10), uid=OTHER), group=f"pod/{OTHER}", problems=problems())
    for fact in (builders.pod("a", builders.vgpu(1, 10), uid="u1"), other, builders.pod("c", builders.vgpu(1, 10))):
        played.put(fact)
    out = played.tick()
    assert sorted(each.name for each in out.claims) == ["a", "c"]
    assert {each.uid: each.message for each in out.explanations if each.decision == "pending"} == {OTHER: PROBLEM}


def problems():
    _, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    return bus.fact(subjects.fact("pod", OTHER)).problems


def test_placement_removes_the_claim_of_a_pod_whose_uid_another_pod_has_now():
    played = Played()
    played.put(builders.pod("a", builders.vgpu(1, 10), uid="u1"))
    played.decided()
    played.put(builders.pod("b", builders.vgpu(1, 20), uid="u1"))
    (removed,) = [each for each in played.tick().ledgers if isinstance(each, NodeLedger)]
    assert [each.name for each in removed.claims] in ([], ["b"])


def test_the_binder_binds_nothing_for_a_claim_of_the_former_owner():
    core = started(claim(), pods=[PodView(uid="u1", namespace="default", name="pod-u1", revision="9", node="n1")])
    assert states(core.take(0.0)) == {"c1": ("bound", "")}
    core.outcomes_written("n1", 5)
    core.pod("u1", PodView(uid="u1", namespace="default", name="b", revision="4"))
    assert core.core._claims.facts.pods["u1"].revision == "4", "the revision of the former owner does not count"
    core.ledger("n1", [claim(withdraw=True)])
    (fence,) = of(FencePod, core.take(1.0))
    assert fence.name == "pod-u1"
    core.read_answered("c1", None, 1.0)
    assert states(core.take(2.0)) == {"c1": ("withdrawn", "")}


class Recorder:
    """A cluster that keeps what is written."""

    def __init__(self):
        self.written = []

    async def set_pod_condition(self, namespace, name, uid, **fields):
        self.written.append((name, uid, fields["message"]))
        return PodState("", {}, "7")

    async def record_event(self, record):
        self.written.append((record.name, record.uid, record.message))


async def test_the_binder_reports_the_reason_on_the_object_with_its_own_uid():
    core = started(pods=[PodView(uid=OTHER, namespace="default", name="b")])
    core.explain(OTHER, PROBLEM)
    cluster = Recorder()
    for command in of(SetPodCondition | RecordEvent, core.written_reports()):
        assert isinstance(await ClusterSide(cluster).perform(command), ClusterWritten)
    assert cluster.written == [("b", "u1", PROBLEM)] * 2


def test_metrics_shows_both_pods():
    core = read(
        (subjects.fact("pod", "u1"), PodFact(uid="u1", namespace="default", name="a")),
        (subjects.fact("pod", OTHER), PodFact(uid=OTHER, namespace="default", name="b", problems=problems())),
    )
    shown = {each.name: (each.state, each.reason) for each in snapshot_of(core).pods}
    assert shown == {"a": ("Pending", None), "b": ("Pending", PROBLEM)}


def test_a_change_of_the_second_pod_is_no_change_of_the_owner():
    core, bus, _ = inventory([pod("a"), pod("b", revision=2)], 2)
    before = bus.messages[subjects.fact("pod", "u1")]
    raw = json.loads(pod("b", revision=3).raw)
    raw["spec"]["nodeName"] = "n7"
    work_off(core, bus, Change(*pod("b", revision=3)[:5], json.dumps(raw).encode()))
    assert bus.messages[subjects.fact("pod", "u1")] == before
    assert facts(bus)["b"].node == "n7"
