"""The placement core: one replica, one event at a time."""

from deviceshare.model import GroupKey, PodFact, PodGroupFact, PodUid, QueueFact
from deviceshare.scheduler import RETRY
from deviceshare.scheduler.reporter import MAX_REPEATED
from deviceshare_placement.core import PlacementCore
from msgspec.structs import replace
from support.builders import SHARE, ask, card, container, node, pod, share_cards, vgpu
from support.played import Played


def test_the_explanation_has_the_environment_of_each_container() -> None:
    played = Played(node("a", share_cards(1)))
    what = ask(container("main", **{SHARE: 500}), init_containers=(container("init", **{SHARE: 3000}),))
    played.put(pod("x", what))
    out = played.tick()
    (explained,) = played.placed(out)
    played.written(out)
    assert [grant.container for grant in explained.grants] == ["main", "init"]
    assert explained.environment["main"]["VOLCANO_GPU_ALLOCATED"] == "500"
    assert explained.environment["init"]["VOLCANO_GPU_ALLOCATED"] == "3000"
    assert played.core.scheduler.cluster.allocator.used_cards("a")[0].memory == 3000


def test_a_pod_that_waits_is_decided_again_when_room_is_made(played) -> None:
    played.put(pod("x", vgpu(2, 60), node="a", held=()))
    holder = pod("h", vgpu(2, 60), node="a")
    played.put(replace(holder, held=_held(2, 60)), pod("w", vgpu(1, 50)))
    assert "asked 50 MiB, at most 40 MiB free, 10 MiB missing" in played.tick().messages[0]
    assert played.tick(5.0) == []
    played.put(replace(holder, held=_held(2, 60), ended=True))
    assert [claim.uid for claim in played.tick().claims] == ["uid-w"]


def test_it_knows_whether_there_are_explanations_that_do_not_expire(played) -> None:
    scheduler = played.core.scheduler
    bound = pod("h", vgpu(2, 60), node="a", held=())
    played.put(bound)
    assert not scheduler.has_explained
    waiting, placed = pod("w", vgpu(9, 60)), pod("x", vgpu(1, 10))
    played.put(waiting)
    played.tick()
    assert scheduler.has_explained
    played.gone(waiting)
    assert not scheduler.has_explained
    played.put(placed)
    played.decided()
    assert not scheduler.has_explained, "its claim says why it was placed"


def _held(count, memory):
    core = PlacementCore("h", "h").scheduler.cluster.allocator
    core.set_node(node("a", [card(at, memory=100) for at in range(2)]))
    return core.place(vgpu(count, memory)).grants


def test_gates_problems_queues_and_groups_that_are_missing_say_so(played) -> None:
    played.put(pod("gated", gates=("example.com/quota",)), replace(pod("q"), queue="nowhere"), pod("g-0", gang="g"))
    played.put(QueueFact(name="closed", open=False), replace(pod("c"), queue="closed"))
    explained = {explanation.name: explanation.message for explanation in played.tick().explanations}
    assert explained == {
        "gated": "waits for scheduling gates: example.com/quota",
        "q": "Pod ns/q: queue 'nowhere' does not exist",
        "g-0": "PodGroup ns/g not found",
        "c": "Pod ns/c: queue 'closed' is not open: its status has no state",
    }


def test_a_gang_waits_for_its_pods_and_then_for_room(played) -> None:
    played.put(PodGroupFact(key=GroupKey("ns/g"), min_member=3))
    for at in range(2):
        played.put(pod(f"g-{at}", vgpu(1, 80), gang="g"))
    assert set(played.tick().messages) == {"pod group ns/g is not ready, 2 of 3 pods exist"}
    played.put(pod("g-2", vgpu(1, 80), gang="g"))
    explained = {explanation.name: explanation.message for explanation in played.tick(2.0).explanations}
    why = (
        "0/1 nodes are unavailable: "
        "1 Insufficient volcano.sh/vgpu-memory on a card (asked 80 MiB, at most 20 MiB free, 60 MiB missing)."
    )
    assert explained["g-2"] == f"pod group ns/g is not ready, 2 of 3 pods fit: {why}"
    assert explained["g-0"] == f"pod group ns/g is not ready, 2 of 3 pods fit: this pod would fit, others do not: {why}"


def test_the_rest_of_a_gang_needs_only_what_is_missing(played) -> None:
    played.put(PodGroupFact(key=GroupKey("ns/g"), min_member=2))
    played.put(pod("g-0", vgpu(1, 80), gang="g", node="a", held=_held(1, 80)), pod("g-1", vgpu(1, 80), gang="g"))
    assert [claim.name for claim in played.tick().claims] == ["g-1"]


def test_a_podgroup_in_a_namespace_called_pod_is_a_gang(played) -> None:
    played.put(PodGroupFact(key=GroupKey("pod/g"), min_member=2))
    one = PodFact(uid=PodUid("u"), namespace="pod", name="x", group=GroupKey("pod/g"), queue="default", ask=vgpu())
    played.put(one)
    assert played.tick().messages == ["pod group pod/g is not ready, 1 of 2 pods exist"]


def test_with_thousands_waiting_a_changed_number_is_published_in_portions(played) -> None:
    for at in range(MAX_REPEATED + 100):
        played.put(pod(f"w{at}", vgpu(2, 200)))
    assert len(played.tick().explanations) == MAX_REPEATED + 100, "the first reason at once"
    played.put(pod("h", vgpu(1, 10), node="a", held=_held(1, 10)), node("c"))
    assert len(played.tick(5.0).explanations) == MAX_REPEATED
    assert played.tick(0.5).explanations == []
    assert 0.0 < played.due <= 0.5
    assert len(played.tick(0.5).explanations) == 100
    assert played.core.open_work == 0


def gang(played: Played, minimum: int, **minimums: int) -> None:
    played.put(PodGroupFact(key=GroupKey("default/g"), min_member=minimum, min_task_member=minimums))


def member(name: str, task: str, memory: int = 60) -> PodFact:
    return replace(pod(name, vgpu(1, memory)), group=GroupKey("default/g"), task=task)


def test_a_task_below_its_minimum_keeps_the_gang_waiting(played) -> None:
    gang(played, 2, master=1, worker=1)
    for name in ("w1", "w2"):
        played.put(member(name, "worker"))
    played.put(member("m", "master", memory=500))
    out = played.tick()
    assert out.claims == []
    assert all("2 of 2 pods fit, 0 of 1 of task master" in message for message in out.messages)


def test_tasks_minimums_that_sum_up_to_more_than_the_gangs_do_not_hold(played) -> None:
    gang(played, 1, master=1, worker=1)
    played.put(member("w", "worker"))
    assert len(played.tick().claims) == 1


def test_a_gang_whose_task_has_too_few_pods_says_which(played) -> None:
    gang(played, 2, master=1, worker=1)
    for name in ("w1", "w2"):
        played.put(member(name, "worker"))
    (message, _) = played.tick().messages
    missing = "task master waits for 1 at least, task worker waits for 1 at least"
    assert message == f"pod group default/g is not ready, 2 of 2 pods exist, {missing}"


def test_a_member_that_succeeded_counts_for_its_gang_one_that_failed_does_not(played) -> None:
    gang(played, 2)
    done = replace(member("done", "worker"), node="a", ended=True, succeeded=True)
    played.put(done, member("late", "worker"))
    assert len(played.tick().claims) == 1
    played = Played()
    gang(played, 2)
    played.put(replace(done, succeeded=False), member("late", "worker"))
    assert played.tick().claims == []


def test_the_pause_after_a_refused_claim_stays_bounded_for_any_number_of_refusals(played) -> None:
    played.put(pod("x", vgpu(1, 60)))
    for _ in range(1100):
        (write,) = played.tick(after=RETRY.most).writes
        played.refused(write, "message size exceeds maximum")
    assert played.tick(after=RETRY.most - 1.0).writes == []
    assert len(played.tick(after=1.0).claims) == 1


def test_the_explanation_of_a_waiting_pod_names_the_closest_node_and_its_cards(played) -> None:
    played.put(pod("h", vgpu(1, 30), node="a", held=_held(1, 30)), pod("x", vgpu(2, 90)))
    (explained,) = played.tick().explanations
    (near,) = explained.closest
    assert (near.node, [(each.code, each.asked, each.free) for each in near.refusals]) == (
        "a", [("CardInsufficientMemory", 90, 70)],
    )  # fmt: skip
    assert [(each.index, each.memory, each.codes) for each in near.cards] == [
        (0, 100, ()),
        (1, 70, ("CardInsufficientMemory",)),
    ]


def test_a_partial_model_name_is_reported_for_waiting_and_placed_pods(played) -> None:
    wish = {"nvidia.com/use-gputype": "V100,V10"}
    played.put(pod("x", vgpu(1, 60, annotations=wish)), pod("y", vgpu(2, 500, annotations=wish)))
    out = played.tick()
    (placed,), (waiting,) = played.placed(out), out.explanations
    caveat = (
        "nvidia.com/use-gputype V10 is no whole word of any model here: without deviceshare.GPUTypeParts it matches "
        "nothing. It is a part of NVIDIA-Tesla V100"
    )
    assert placed.caveats == waiting.caveats == (caveat,)


def test_an_outcome_of_another_pod_does_not_answer_for_a_claim_with_its_id(played) -> None:
    played.put(pod("x", vgpu(1, 40)))
    played.decided()
    (claim,) = played.core.scheduler.cluster.ledger("a").claims.values()
    assert not played.outcome(replace(claim, uid="other"), "refused", "no route to host")
    assert not played.tick().writes
    played.outcome(claim, "refused", "no route to host")
    (removal,) = played.tick().writes
    assert removal.writes[0].message.claims == ()
