"""The scheduler as harnesses use it: facts in, decisions and reasons out."""

import re
from pathlib import Path

import pytest
from deviceshare.allocation import Placement
from deviceshare.model import Gone, Now, PodFact, PodGroupFact, QueueFact
from deviceshare.queueing import round_work
from deviceshare.scheduler import RETRY, Scheduler
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu

ROOT = Path(__file__).parents[2]
USERS = ("services", "libs/deviceshare-cli/src", "lab/src", "libs/deviceshare-localcluster/src")
INSIDE = re.compile(r"(?<!deviceshare\.)scheduler\.(?:_\w+|cluster)\b")
NOW = Now(10.0, 1e9)
NODE = node("a", [card(0, node="a", memory=1000)])


def scheduler_with(*pods: PodFact) -> Scheduler:
    scheduler = Scheduler("s")
    scheduler.apply("node a", NODE, NOW)
    for each in pods:
        scheduler.apply(f"pod {each.uid}", each, NOW)
    scheduler.begin()
    return scheduler


def claimed(scheduler: Scheduler, now: Now = NOW) -> list[str]:
    """Decide a round, and let all of its decisions stand; return the pods in the order of the decisions."""
    pods = []
    for number, (fact, placement, decision) in enumerate(scheduler.round(now).placed):
        claim = scheduler.new_claim(f"claim-{number}", fact, placement, decision, now)
        scheduler.claim(placement.node, [claim])
        pods.append(claim.name)
    return pods


def test_a_decision_stands_when_it_is_claimed_and_is_taken_back_otherwise() -> None:
    scheduler = scheduler_with(pod("one", vgpu(1, 1000)))
    ((fact, placement, _),) = scheduler.round(NOW).placed
    assert (fact.name, placement.node) == ("one", "a")
    assert scheduler.holding("a", fact.uid) is not None
    scheduler.release("a", fact.uid)
    assert scheduler.holding("a", fact.uid) is None
    assert claimed(scheduler) == ["one"]
    scheduler.release("a", fact.uid)
    assert scheduler.holding("a", fact.uid) is not None, "the claim stays"
    gone, _ = scheduler.claim("a", [])
    assert [claim.name for claim in gone] == ["one"]
    assert scheduler.holding("a", fact.uid) is None


def test_a_refused_pod_is_decided_again_after_its_pause() -> None:
    scheduler = scheduler_with(pod("one", vgpu(1, 1000)))
    assert scheduler.round(NOW).order
    scheduler.release("a", "uid-one", again=False)
    scheduler.refuse("uid-one", "the node is full", NOW.monotonic)
    assert not scheduler.round(NOW).order
    assert [each.message for each in scheduler.reports(NOW.monotonic)] == [
        "binding was refused: the node is full; it will be tried again"
    ]
    due = scheduler.next_due(NOW)
    assert due == pytest.approx(NOW.monotonic + RETRY.delay(0))
    assert scheduler.round(Now(due, NOW.wall)).order == ["uid-one"]


def test_why_a_pod_waits_is_explained_without_deciding_it() -> None:
    scheduler = scheduler_with(pod("big", vgpu(1, 2000)), pod("small", vgpu(1, 500)), pod("member", gang="g"))
    assert "asked 2000 MiB" in scheduler.explain("uid-big", NOW).message
    assert scheduler.explain("uid-small", NOW).message == "fits on node a now"
    assert scheduler.explain("uid-member", NOW).message == "PodGroup ns/g not found"
    assert scheduler.holding("a", "uid-small") is None
    assert claimed(scheduler) == ["small"]
    assert {each.name for each in scheduler.reports(NOW.monotonic)} == {"big", "member"}


def test_a_gang_is_explained_as_a_whole() -> None:
    members = [pod(name, vgpu(1, 600), gang="g") for name in ("x", "y")]
    scheduler = scheduler_with(*members)
    scheduler.apply("group", PodGroupFact(key="ns/g", uid="g", min_member=2, phase="Inqueue", admitted=True), NOW)
    assert scheduler.explain("uid-y", NOW).message.startswith("pod group ns/g")
    assert scheduler.holding("a", "uid-x") is None


def test_a_gated_member_is_explained_by_its_gate_and_a_placed_pod_not_at_all() -> None:
    gated = replace(pod("gated", vgpu(1, 500), gang="g"), gates=("quota",))
    scheduler = scheduler_with(pod("free", vgpu(1, 500), gang="g"), gated)
    scheduler.apply("group", PodGroupFact(key="ns/g", uid="g", min_member=1, phase="Inqueue", admitted=True), NOW)
    assert scheduler.explain("uid-gated", NOW).message == "waits for scheduling gates: quota"
    assert claimed(scheduler) == ["free"]
    with pytest.raises(ValueError, match="Pod ns/free does not wait"):
        scheduler.explain("uid-free", NOW)


def test_an_inner_trial_removes_what_the_outer_one_placed() -> None:
    scheduler = scheduler_with(pod("one", vgpu(1, 1000)), pod("two", vgpu(1, 1000)))
    with scheduler.trial() as outer:
        outer.place("uid-one")
        with scheduler.trial() as inner:
            inner.remove("uid-one")
            assert scheduler.holding("a", "uid-one") is None
            assert isinstance(inner.place("uid-two"), Placement)
        assert scheduler.holding("a", "uid-one") is not None
        assert scheduler.holding("a", "uid-two") is None
    assert scheduler.holding("a", "uid-one") is None


def test_a_deleted_pod_is_reported_with_its_group_as_it_was() -> None:
    scheduler = scheduler_with(pod("one", vgpu(1, 1000)))
    applied = scheduler.apply("pod uid-one", Gone(), NOW)
    assert applied.ended is not None
    assert applied.ended.group.fact.queue == "default"
    assert applied.ended.explanation.message == "the pod is gone"
    assert not scheduler.pods
    assert not scheduler.groups


def test_nothing_outside_reaches_into_a_scheduler() -> None:
    files = [file for root in USERS for file in (ROOT / root).rglob("*.py")]
    found = [f"{file}: {line}" for file in files for line in INSIDE.findall(file.read_text())]
    assert len(files) > 100
    assert found == []


def test_the_holders_of_a_queue_are_its_pods_on_nodes_that_have_not_ended() -> None:
    request = vgpu(1, 300)
    ended = pod("b-ended", request, node="a", ended=True)
    scheduler = scheduler_with(pod("a-waits", request), ended, pod("c-placed", request, node="a"))
    assert [fact.name for fact, _ in scheduler.holders_of("default")] == ["c-placed"]


def test_a_pod_is_explained_in_its_first_round_though_an_earlier_round_used_up_its_diagnoses(monkeypatch) -> None:
    monkeypatch.setattr(round_work, "EXPLAINING", 1)
    scheduler = scheduler_with(pod("one", vgpu(1, 9000)), replace(pod("two", vgpu(1, 9000)), queue="small"))
    scheduler.apply("queue small", QueueFact(name="small"), NOW)
    scheduler.round(NOW)
    for uid in ("uid-one", "uid-two"):
        scheduler.apply(f"pod {uid}", Gone(), NOW)
    later = Now(NOW.monotonic + 100, NOW.wall + 100)
    scheduler.round(later)
    scheduler.apply("pod three", pod("three", vgpu(1, 9500)), later)
    assert scheduler.round(later).unplaced == 1
    assert [each.name for each in scheduler.reports(later.monotonic)] == ["three"]
