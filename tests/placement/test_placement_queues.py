"""Queues, PodGroups and the action enqueue, as the placement core reports them."""

import pytest
from deviceshare.model import ConfigFact, GroupKey, PodGroupFact, QueueFact
from msgspec.structs import replace
from support.builders import MEMORY, ask, card, container, node, pod, vgpu
from support.played import Played

GANG = PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=2, min_resources={MEMORY: 120})


OVERCOMMIT = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - {name: overcommit, arguments: {overcommit-factor: 1.0}}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
"""


def of_groups(out):
    return [(each.decision, each.message) for each in out.explanations if each.uid == "g"]


def test_a_group_that_needs_more_than_its_queue_has_is_pending_with_its_pods() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 100}), GANG)
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.tick()
    why = (
        "pod group ns/g is not admitted to its queue: queue 'q' has a capability of 100 MiB of volcano.sh/vgpu-memory, "
        "0 MiB promised, 120 MiB asked"
    )
    assert of_groups(out) == [("rejected", why)]
    assert out.messages.count(why) == 3, "of the group and of both pods"
    assert out.writes == []
    played.put(QueueFact(name="q", capability={MEMORY: 200}))
    (write,) = played.tick().writes
    assert len(write.writes[0].message.claims) == 2


def test_the_admission_of_a_group_without_pods_is_reported_before_its_pods_exist() -> None:
    played = Played()
    played.put(QueueFact(name="q"), GANG)
    assert of_groups(played.tick()) == [("admitted", "pod group ns/g is admitted to its queue")]
    assert of_groups(played.tick()) == []
    played.put(replace(GANG, admitted=True))
    assert of_groups(played.tick()) == []


def test_a_group_that_was_let_in_before_stays_in() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 100}), replace(GANG, admitted=True))
    assert played.tick().explanations == []


def test_a_group_that_comes_again_has_to_apply_again() -> None:
    played = Played()
    played.put(QueueFact(name="q"), GANG)
    played.tick()
    played.put(QueueFact(name="q", capability={MEMORY: 100}), replace(GANG, uid="h"))
    (explained,) = played.tick().explanations
    assert (explained.uid, explained.decision) == ("h", "rejected")


def test_a_pod_at_its_queues_bound_says_so_and_goes_on_when_another_ends() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 70}))
    for at in range(2):
        played.put(replace(pod(f"p{at}", vgpu(1, 60)), queue="q", created=float(at)))
    out = played.tick()
    (claim,) = out.claims
    explained = (*out.explanations, *played.tick().explanations)
    (waits,) = [each for each in explained if each.uid == "uid-p1"]
    assert waits.message == (
        "queue 'q' has a capability of 70 MiB of volcano.sh/vgpu-memory, 60 MiB used, 60 MiB asked"
    )
    (refusal,) = waits.refusals
    assert (refusal.code, refusal.resource, refusal.asked, refusal.free) == ("QueueOverCapability", MEMORY, 60, 10)
    played.written(out)
    played.put(replace(pod("p0", vgpu(1, 60)), queue="q", node="a", held=claim.grants, ended=True, succeeded=True))
    # Its claim is taken out of the ledger first.
    out = played.decided()
    again = played.tick()
    assert [each.uid for each in out.claims + again.claims] == ["uid-p1"]


def test_a_pod_that_is_not_ours_does_not_count_in_any_queue() -> None:
    played = Played()
    played.put(QueueFact(name="default", capability={MEMORY: 70}))
    played.put(replace(pod("other", vgpu(1, 60)), scheduler="default-scheduler", node="a"))
    played.put(replace(pod("ours", vgpu(1, 60)), scheduler="deviceshare"))
    assert [claim.uid for claim in played.tick().claims] == ["uid-ours"]


def test_a_pod_that_is_not_ours_counts_for_overcommit_while_it_holds_something() -> None:
    played = Played()
    played.put(ConfigFact(name="scheduler", text=OVERCOMMIT, source="x"), QueueFact(name="q"))
    other = replace(pod("other", vgpu(1, 100)), scheduler="default-scheduler", node="a")
    played.put(other, GANG)
    why = (
        "pod group ns/g is not admitted to its queue: the overcommit limit of volcano.sh/vgpu-memory is 200 MiB, "
        "100 MiB promised, 120 MiB asked"
    )
    assert of_groups(played.tick()) == [("rejected", why)]
    played.put(replace(other, ended=True))
    assert of_groups(played.tick()) == [("admitted", "pod group ns/g is admitted to its queue")]


def test_the_reason_of_a_closed_queue_has_its_state() -> None:
    played = Played()
    played.put(QueueFact(name="q", open=False, state="Closing"), replace(pod("p", vgpu(1, 60)), queue="q"))
    assert played.tick().messages == ["Pod ns/p: queue 'q' is not open: it is Closing"]


def test_without_backfill_a_pod_that_requests_nothing_waits_and_says_why() -> None:
    played = Played()
    conf = "actions: allocate\ntiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]}]"
    played.put(ConfigFact(name="scheduler", text=conf, source="x"), pod("p", ask(container())))
    assert played.tick().messages == ["the action 'backfill' is not configured, which serves such pods"]


def test_a_pod_that_counts_less_since_the_largest_card_is_gone_is_looked_at_again() -> None:
    # The first node by name is chosen.
    large, small = node("large", [card(0, memory=400)]), node("small", [card(1, memory=100)])
    played = Played(large, small)
    played.put(QueueFact(name="q", capability={MEMORY: 150}), replace(pod("p", vgpu(1)), queue="q"))
    out = played.tick()
    assert out.writes == []
    assert out.messages == [f"queue 'q' has a capability of 150 MiB of {MEMORY}, 0 MiB used, 400 MiB asked"]
    played.remove("node", "large")
    (claim,) = played.tick().claims
    assert claim.name == "p"


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        (None, "PodGroup ns/g: queue 'q' does not exist"),
        (QueueFact(name="q", open=False, state="Closed"), "PodGroup ns/g: queue 'q' is not open: it is Closed"),
        (QueueFact(name="q", open=False), "PodGroup ns/g: queue 'q' is not open: its status has no state"),
    ],
)
def test_a_closed_or_unknown_queue_admits_no_job(queue, why) -> None:
    played = Played()
    if queue is not None:
        played.put(queue)
    played.put(GANG)
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.tick()
    assert of_groups(out) == [("rejected", why)]
    assert out.messages.count(why) == 3, "of the group and of both pods"
    played.put(QueueFact(name="q"))
    assert len(played.tick().claims) == 2


@pytest.mark.parametrize(
    "priorities",
    [
        {"a": (0, None), "b": (5, None), "c": (9, None)},
        {"a": (9, 0), "b": (0, 5), "c": (9, None)},
    ],
)
def test_in_a_gang_the_pods_with_the_highest_priority_come_first(priorities) -> None:
    played = Played()
    played.put(QueueFact(name="q"), replace(GANG, min_member=1, min_resources=None))
    for name, (priority, of_task) in priorities.items():
        played.put(replace(pod(name, vgpu(1, 60), gang="g"), priority=priority, task_priority=of_task))
    assert sorted(claim.name for claim in played.tick().claims) == ["b", "c"]


def in_hierarchy(*queues: QueueFact, argument: str = "") -> Played:
    played = Played()
    arguments = f"{{deviceshare.VGPUEnable: true{argument}}}"
    text = f"- {{name: capacity, enableHierarchy: true}}\n- {{name: deviceshare, arguments: {arguments}}}"
    played.put(ConfigFact(name="scheduler", text=text, source="conf"), *queues, GANG)
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 10), gang="g"))
    return played


def test_a_queue_whose_parent_does_not_exist_serves_once_there_is_one() -> None:
    played = in_hierarchy(QueueFact(name="q", parent="above"))
    out = played.tick()
    expected = "Queue q: spec.parent: 'above' is not valid: expected the name of a queue that exists"
    assert {f"PodGroup ns/g: {expected}"} == set(out.messages)
    played.put(QueueFact(name="above", capability={MEMORY: 100}))
    out = played.tick(after=2.0)
    assert "queue 'above' has a capability of 100 MiB" in out.messages[0]
    played.put(QueueFact(name="above", capability={MEMORY: 200}))
    assert len(played.tick(after=2.0).claims) == 2


def test_a_queue_with_children_serves_no_job() -> None:
    played = in_hierarchy(QueueFact(name="q"), QueueFact(name="child", parent="q"))
    (why,) = set(played.tick().messages)
    assert why == "PodGroup ns/g: queue 'q' is the parent of 'child': only queues without children serve"


def test_where_nothing_is_isolated_one_wrong_queue_stops_all() -> None:
    switch = ", deviceshare.HierarchyIsolationEnable: false"
    queues = [QueueFact(name="root"), QueueFact(name="q")]
    wrong = QueueFact(name="other", parent="nowhere")
    played = in_hierarchy(*queues, wrong, argument=switch)
    (why,) = set(played.tick().messages)
    assert why.startswith("PodGroup ns/g: Queue other: spec.parent: 'nowhere' is not valid")
    played.put(replace(wrong, parent=""))
    assert len(played.tick(after=2.0).claims) == 2


def test_a_group_that_was_let_in_and_could_not_be_claimed_is_reported_then() -> None:
    played = Played()
    played.put(QueueFact(name="q"), GANG)
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.tick()
    assert of_groups(out) == [], "it was placed at once"
    (write,) = out.writes
    played.conflict(write)
    played.read_back("a")
    played.put(node("a", [card(0, memory=100)]))
    assert of_groups(played.tick()) == [("admitted", "pod group ns/g is admitted to its queue")]
    assert of_groups(played.tick()) == []


def test_best_effort_pods_of_a_gang_say_why_they_wait_where_others_like_them_wait_already() -> None:
    played = Played()
    played.put(node("a", pods=1), pod("runs", ask(container(cpu=1)), node="a"), pod("alone", ask(container())))
    played.tick()
    played.put(PodGroupFact(key=GroupKey("ns/m"), uid="m", min_member=1))
    for name, what in (("m-w-0", ask(container(cpu=1))), ("m-l-0", ask(container()))):
        played.put(pod(name, what, gang="m"))
    explained = {each.name: each.message for each in played.tick(2.0).explanations}
    assert "Too many pods" in explained["m-w-0"]
    assert "Too many pods" in explained["m-l-0"]
