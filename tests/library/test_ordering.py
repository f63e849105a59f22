"""Whose turn it is: queues by share, jobs by priority, readiness, dominant share and age; bounds of queues."""

import pytest
from deviceshare.conf import default_conf, parse_conf, tiers
from deviceshare.model import GroupKey, QueueFact
from deviceshare.queueing import Group, Job
from deviceshare.queueing.job_queue import JobQueue
from msgspec.structs import replace
from support.builders import (
    MEMORY,
    NUMBER,
    SHARE,
    WHOLE_CARDS,
    ask,
    cluster,
    container,
    node,
    pod,
    share,
    share_cards,
    vgpu,
    whole,
)
from support.queue_scene import Scene, card_node, in_queues

CPU_POD = ask(container(cpu=1000))


def test_jobs_come_by_priority_then_age_then_name():
    scene = Scene(card_node(1, 40))
    for name, priority, created in (("d", 0, 1.0), ("c", 0, 2.0), ("b", 5, 9.0), ("a", 0, 2.0)):
        scene.single(name, priority=priority, created=created)
    assert scene.decide() == ["b", "d", "a", "c"]


def test_a_plugin_that_is_not_configured_does_not_order():
    scene = Scene(card_node(1, 40), conf=replace(default_conf(), tiers=tiers("gang")))
    scene.single("old", priority=0, created=1.0)
    scene.single("urgent", priority=5, created=2.0)
    assert scene.decide() == ["old", "urgent"]


def test_a_plugin_whose_job_order_is_off_does_not_order():
    conf = parse_conf("- name: priority\n  enableJobOrder: false\n- name: deviceshare\n  arguments: {}", "x")
    scene = Scene(card_node(1), conf=replace(default_conf(), tiers=conf.tiers))
    scene.single("old", priority=0, created=1.0)
    scene.single("urgent", priority=5, created=2.0)
    assert scene.decide() == ["old", "urgent"]


def test_jobs_with_their_minimum_come_after_jobs_without_it():
    scene = Scene(card_node(1, 60))
    scene.gang("elastic", 5, minimum=1, created=1.0)
    scene.gang("late", 3, created=2.0)
    assert scene.decide() == ["elastic-0", "elastic-1", "elastic-2", "late-0", "late-1", "late-2"]
    assert list(scene.turns.placed) == ["ns/elastic", "ns/late"]


def test_the_tiers_say_whether_priority_or_readiness_counts_first():
    for plugins, expected in (("priority gang", 0), ("gang priority", 3)):
        scene = Scene(card_node(1, 40), conf=replace(default_conf(), tiers=tiers(plugins)))
        scene.gang("elastic", 4, minimum=1, priority=5)
        scene.gang("late", 3, priority=0)
        assert sum(name.startswith("late") for name in scene.decide()) == expected, plugins


def test_the_smaller_dominant_share_comes_first_whatever_it_is_of():
    scene = Scene(card_node(4, 100, cpu=8000), conf=replace(default_conf(), tiers=tiers("drf")))
    scene.gang("cards", 100, vgpu(1, 100), minimum=1, created=1.0)
    scene.gang("cpus", 100, ask(container(cpu=1000)), minimum=1, created=2.0)
    assert scene.decide(6) == ["cards-0", "cards-1", "cpus-0", "cpus-1", "cpus-2", "cpus-3"]
    # A card is a quarter of all cards, a CPU an eighth of all CPUs.


def test_queues_are_served_by_share_of_what_they_deserve():
    queues = in_queues(
        QueueFact(name="one", weight=1), QueueFact(name="two", weight=2), QueueFact(name="four", weight=4)
    )
    scene = Scene(card_node(7, 100), queues=queues)
    for queue in ("one", "two", "four"):
        for at in range(100):
            scene.single(f"{queue}-{at:02d}", vgpu(1, 10), queue=queue)
    placed = scene.decide()
    assert [sum(name.startswith(queue) for name in placed) for queue in ("one", "two", "four")] == [10, 20, 40]


def test_a_queue_with_a_higher_priority_comes_first():
    queues = in_queues(QueueFact(name="low"), QueueFact(name="high", priority=1))
    scene = Scene(card_node(1, 20), queues=queues)
    scene.single("l", queue="low", created=1.0)
    scene.single("h", queue="high", created=2.0)
    assert scene.decide() == ["h", "l"]


BOUNDS = [
    ({MEMORY: 25}, vgpu(1, 10), 2, "volcano.sh/vgpu-memory, 20 MiB used, 10 MiB asked"),
    ({NUMBER: 3}, vgpu(2, 10), 1, "volcano.sh/vgpu-number, 2 used, 2 asked"),
    ({"volcano.sh/vgpu-cores": 50}, vgpu(2, 10, 20), 1, "volcano.sh/vgpu-cores, 40 used, 40 asked"),
    ({MEMORY: 150}, vgpu(1, None), 1, "volcano.sh/vgpu-memory, 100 MiB used, 100 MiB asked"),
    ({MEMORY: 110}, vgpu(1, None, None, 50), 2, "volcano.sh/vgpu-memory, 100 MiB used, 50 MiB asked"),
    ({"cpu": 2500}, CPU_POD, 2, "cpu, 2 used, 1 asked"),
]


@pytest.mark.parametrize(("capability", "what", "fit", "words"), BOUNDS)
def test_no_queue_passes_its_capability(capability, what, fit, words):
    scene = Scene(card_node(4), queues=in_queues(QueueFact(name="q", capability=capability)))
    for at in range(4):
        scene.single(f"p{at}", what, queue="q")
    placed = scene.decide()
    assert placed == [f"p{at}" for at in range(fit)]
    (why,) = scene.reasons.values()
    assert why.startswith("queue 'q' has a capability of ")
    assert why.endswith(words)
    scene.end("p0")
    assert scene.decide() == [f"p{fit}"], "the reason goes away when the pod does"


@pytest.mark.parametrize(
    ("resource", "what", "memory"), [(SHARE, share(60), 100), (WHOLE_CARDS, whole(2), 0)], ids=[SHARE, WHOLE_CARDS]
)
def test_the_cards_of_gpu_sharing_count_by_the_names_by_which_they_are_requested(resource, what, memory):
    (amount,) = (dict(each.resources)[resource] for each in what.containers)
    queues = in_queues(QueueFact(name="q", capability={resource: 2 * amount}))
    scene = Scene(node("a", share_cards(8, memory=memory)), queues=queues)
    for at in range(3):
        scene.single(f"p{at}", what, queue="q")
    assert scene.decide() == ["p0", "p1"]


@pytest.mark.parametrize("first", ["the pods", "the nodes"])
def test_all_memory_of_a_card_counts_by_the_largest_card_whenever_that_was_heard_of(first):
    scene = Scene(queues=[QueueFact(name="q", capability={MEMORY: 150})])
    nodes = card_node(2), card_node(1, memory=40, name="b")
    scene.come(*nodes if first == "the nodes" else ())
    for name in "pr":
        scene.single(name, vgpu(1), queue="q")
    scene.come(*nodes)
    assert scene.decide() == ["p"]
    assert scene.reasons == {"r": f"queue 'q' has a capability of 150 MiB of {MEMORY}, 100 MiB used, 100 MiB asked"}


def test_a_larger_card_that_is_gone_counts_no_more():
    scene = Scene(
        card_node(1), card_node(1, memory=400, name="b"), queues=[QueueFact(name="q", capability={MEMORY: 150})]
    )
    scene.single("p", vgpu(1), queue="q")
    scene.allocator.remove_node("b")
    scene.queues.remove_node("b")
    assert scene.decide() == ["p"]


def test_a_capability_without_any_cpu_says_nothing_of_it():
    scene = Scene(node("a", cpu=3000), queues=[QueueFact(name="a", capability={"cpu": 0}), QueueFact(name="b")])
    for at in range(3):
        for queue in "ba":
            scene.single(f"{queue}{at}", CPU_POD, queue=queue, created=float(at))
    assert scene.decide() == ["a0", "b0", "a1"]


def test_a_gang_counts_as_a_whole_and_does_not_hold_up_those_behind_it():
    scene = Scene(card_node(4), queues=in_queues(QueueFact(name="q", capability={MEMORY: 25})))
    scene.gang("big", 3, queue="q", created=1.0)
    scene.single("small", queue="q", created=2.0)
    assert scene.decide() == ["small"]
    assert scene.reasons["big-2"].startswith("queue 'q' has a capability of 25 MiB")
    assert scene.reasons["big-0"] == "", "others of the gang are the reason"


def test_guarantees_of_other_queues_are_reserved():
    scene = Scene(card_node(4, 10), queues=in_queues("free", QueueFact(name="sure", guarantee={MEMORY: 30})))
    for at in range(3):
        scene.single(f"f{at}", queue="free")
    assert scene.decide() == ["f0"]
    assert scene.reasons["f1"] == (
        "queue 'free' is limited to 10 MiB of volcano.sh/vgpu-memory, 10 MiB used, 10 MiB asked; "
        "the rest is guaranteed to other queues"
    )
    for at in range(3):
        scene.single(f"s{at}", queue="sure")
    assert scene.decide() == ["s0", "s1", "s2"]


def test_an_indivisible_rest_goes_to_the_smallest_share():
    scene = Scene(card_node(1), queues=in_queues("a", "b"))
    scene.single("x", vgpu(1, 100), queue="a", created=2.0)
    scene.single("y", vgpu(1, 100), queue="b", created=1.0)
    assert scene.decide() == ["x"], "half a card each would leave both waiting"
    scene.end("x")
    assert scene.decide() == ["y"]


def test_a_queue_waits_at_what_it_deserves_and_says_so():
    scene = Scene(card_node(4, 10), card_node(1, 15, "b"), queues=in_queues("a", "b"))
    scene.single("first", vgpu(1, 10), queue="a")
    assert scene.decide() == ["first"]
    for at in range(4):
        scene.single(f"a{at}", vgpu(1, 10), queue="a")
    scene.gang("wide", 2, vgpu(1, 13), queue="b")
    placed = scene.decide()
    assert placed == ["a0"]
    assert scene.reasons["a1"] == (
        "queue 'a' deserves 29 MiB of volcano.sh/vgpu-memory, 20 MiB used, 10 MiB asked; "
        "it may borrow more when other queues request less"
    )
    scene.dispatcher.discard(GroupKey("ns/wide"))
    for at in range(2):
        scene.queues.drop(f"uid-wide-{at}")
    assert scene.decide() == ["a1", "a2", "a3"]


def test_a_queue_exceeds_its_deserved_amount_of_unrequested_resources():
    scene = Scene(node("s", share_cards(2, memory=100)), card_node(1), queues=in_queues("a", "b"))
    gated = pod("gated", share(100))
    scene.queues.put(gated, "a", gated.group)
    for at in range(2):
        scene.single(f"a{at}", vgpu(1, 100), queue="a", created=float(at))
        scene.single(f"b{at}", share(100), queue="b", created=float(at))
    assert scene.decide() == ["a0", "b0", "b1"]


def test_a_job_that_can_never_be_placed_blocks_borrowing_for_a_limited_time():
    scene = Scene(card_node(2), card_node(2, name="b"), queues=in_queues("a", "b"))
    for amount in (50, 60):
        scene.single(f"a{amount}", vgpu(3, amount), queue="a")
    for at in range(4):
        scene.single(f"b{at}", vgpu(1, 60), queue="b", created=float(at))
    assert len(scene.decide(now=0.0)) < 4
    moments = scene.until_nothing_is_due()
    assert sorted(scene.pods) == ["b0", "b1", "b2", "b3"]
    assert len(moments) < 10


def test_a_refusal_for_lack_of_room_omits_the_deserved_amount():
    scene = Scene(card_node(2), queues=in_queues("q"))
    for at in range(3):
        scene.single(f"p{at}", vgpu(1, 100), queue="q", created=float(at))
    scene.decide(now=0.0)
    assert scene.reasons == {"p2": "no room"}
    scene.end("p0")
    scene.single("older", vgpu(1, 100), queue="q", created=-1.0)
    assert scene.decide(now=0.1) == ["older"]
    assert scene.reasons == {}, "it was asked why a moment ago"
    scene.decide(now=min(scene.dispatcher.due()))
    assert scene.reasons == {"p2": "no room"}


def test_with_capacity_a_queue_deserves_what_it_says():
    conf = replace(default_conf(), tiers=tiers("capacity"))
    queues = in_queues(QueueFact(name="a", deserved={MEMORY: 10}), QueueFact(name="b", deserved={MEMORY: 30}))
    scene = Scene(card_node(4, 10), conf=conf, queues=queues)
    for at in range(4):
        scene.single(f"a{at}", queue="a", created=1.0)
        scene.single(f"b{at}", queue="b", created=2.0)
    assert sorted(scene.decide()) == ["a0", "b0", "b1", "b2"]


def test_without_a_plugin_that_bounds_queues_there_are_no_bounds():
    scene = Scene(
        card_node(4),
        conf=replace(default_conf(), tiers=()),
        queues=in_queues(QueueFact(name="q", capability={MEMORY: 5})),
    )
    scene.single("x", queue="q")
    assert scene.decide() == ["x"]


def test_a_gang_that_cannot_fit_does_not_hold_up_those_behind_it():
    scene = Scene(card_node(1, 100))
    scene.gang("huge", 3, vgpu(1, 60), priority=9)
    scene.single("small", vgpu(1, 60))
    assert scene.decide() == ["small"]


def test_pods_that_request_nothing_come_after_all_others():
    scene = Scene(card_node(1, pods=2))
    scene.single("nothing", ask(container()), priority=9, created=1.0)
    scene.single("something", created=2.0)
    scene.single("more", created=3.0)
    assert scene.decide() == ["something", "more"]
    scene.end("more")
    assert scene.decide() == ["nothing"]


def test_actions_come_in_their_order():
    scene = Scene(card_node(1, pods=1), conf=replace(default_conf(), actions=("backfill", "allocate")))
    scene.single("something", created=1.0)
    scene.single("nothing", ask(container()), created=2.0)
    assert scene.decide() == ["nothing"]


def test_pods_that_request_the_same_wait_as_one_and_come_back_in_order():
    scene = Scene(card_node(1, 20))
    same = vgpu(1, 10)
    for at in range(5):
        scene.single(f"p{at}", same, priority=at)
    assert scene.decide() == ["p4", "p3"]
    assert len(scene.turns.waiting) == 1
    scene.single("urgent", same, priority=9)
    assert scene.decide() == [], "no room was made"
    scene.end("p4")
    assert scene.decide() == ["urgent"]
    scene.dispatcher.discard(GroupKey("pod/uid-p2"))
    scene.end("p3")
    assert scene.decide() == ["p1"]


def test_who_comes_and_goes_behind_one_who_waits_leaves_nothing_behind():
    line, longest = JobQueue(cluster().waiting_requests()), 0
    for at in range(1000):
        waits = pod(f"p{at}", CPU_POD)
        kind = line.put(
            Job(queue="q", group=Group(key=waits.group, pods=(waits,)), created=float(at)), (float(at), waits.group)
        )
        if at:
            line.discard(waits.group)
            longest = max(longest, len(kind.order._heap))
    assert len(kind.jobs) == 1
    assert longest == 2 * len(kind.jobs) + 64
    assert kind.first() is not None


def test_a_round_ends_when_enough_is_placed_and_goes_on_where_it_ended():
    scene = Scene(card_node(4))
    scene.gang("g", 9, minimum=2)
    assert scene.decide(3) == ["g-0", "g-1", "g-2"]
    assert len(scene.dispatcher) == 1
    assert scene.decide() == [f"g-{at}" for at in range(3, 9)]
    assert len(scene.dispatcher) == 0


def test_tasks_have_their_minimum_before_more_of_others():
    scene = Scene(card_node(1, 30))
    workers = [replace(pod(f"w{at}", vgpu(1, 10), gang="g"), task="worker") for at in range(3)]
    master = replace(pod("z", vgpu(1, 10), gang="g"), task="master")
    scene.put(*workers, master, minimum=2, tasks=(("master", 1), ("worker", 1)))
    assert scene.decide() == ["w0", "z", "w1"]
