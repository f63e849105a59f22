"""Queues, PodGroups and the action enqueue, as the placement core tells of them."""

from deviceshare.facts import ConfigFact, GroupKey, PodGroupFact, QueueFact
from msgspec.structs import replace
from support.builders import MEMORY, ask, container, pod, vgpu
from support.played import Played, messages

GANG = PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=2, min_resources={MEMORY: 120})


def of_groups(out):
    return [(each.decision, each.message) for each in out.explanations if each.uid == "g"]


def test_a_group_that_needs_more_than_its_queue_has_is_pending_with_its_pods() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 100}))
    played.put(GANG)
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.cycle()
    why = (
        "pod group ns/g is not let into its queue: queue 'q' has a capability of 100 MiB of volcano.sh/vgpu-memory, "
        "0 MiB used, 120 MiB asked"
    )
    assert of_groups(out) == [("rejected", why)]
    assert messages(out).count(why) == 3, "of the group and of both pods"
    assert out.publications == []
    played.put(QueueFact(name="q", capability={MEMORY: 200}))
    (publication,) = played.cycle().publications
    assert len(publication.writes[0].ledger.claims) == 2


def test_a_group_without_pods_is_told_that_it_is_let_in_so_that_its_pods_are_made() -> None:
    played = Played()
    played.put(QueueFact(name="q"))
    played.put(GANG)
    assert of_groups(played.cycle()) == [("admitted", "pod group ns/g is let into its queue")]
    assert of_groups(played.cycle()) == []
    played.put(replace(GANG, admitted=True))
    assert of_groups(played.cycle()) == []


def test_a_group_that_was_let_in_before_stays_in() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 100}))
    played.put(replace(GANG, admitted=True))
    assert played.cycle().explanations == []


def test_a_group_that_comes_again_has_to_apply_again() -> None:
    played = Played()
    played.put(QueueFact(name="q"))
    played.put(GANG)
    played.cycle()
    played.put(QueueFact(name="q", capability={MEMORY: 100}))
    played.put(replace(GANG, uid="h"))
    (told,) = played.cycle().explanations
    assert (told.uid, told.decision) == ("h", "rejected")


def test_a_pod_at_its_queues_bound_says_so_and_goes_on_when_another_ends() -> None:
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 70}))
    for at in range(2):
        played.put(replace(pod(f"p{at}", vgpu(1, 60)), queue="q", created=float(at)))
    out = played.cycle()
    (claim,) = played.claims(out)
    told = (*out.explanations, *played.cycle().explanations)
    (waits,) = [each for each in told if each.uid == "uid-p1"]
    assert waits.message == (
        "queue 'q' has a capability of 70 MiB of volcano.sh/vgpu-memory, 60 MiB used, 60 MiB asked"
    )
    (refusal,) = waits.refusals
    assert (refusal.code, refusal.resource, refusal.asked, refusal.free) == ("QueueOverCapability", MEMORY, 60, 10)
    played.written(out)
    played.put(replace(pod("p0", vgpu(1, 60)), queue="q", node="a", held=claim.grants, ended=True, succeeded=True))
    # Its claim is taken out of the ledger first.
    out = played.cycle()
    played.written(out)
    again = played.cycle()
    assert [each.uid for each in played.claims(out) + played.claims(again)] == ["uid-p1"]


def test_a_pod_that_is_not_ours_does_not_count_in_any_queue() -> None:
    played = Played()
    played.put(QueueFact(name="default", capability={MEMORY: 70}))
    played.put(replace(pod("other", vgpu(1, 60)), scheduler="default-scheduler", node="a"))
    played.put(replace(pod("ours", vgpu(1, 60)), scheduler="deviceshare"))
    assert [claim.uid for claim in played.claims(played.cycle())] == ["uid-ours"]


def test_a_closed_queue_says_its_state() -> None:
    played = Played()
    played.put(QueueFact(name="q", open=False, state="Closing"))
    played.put(replace(pod("p", vgpu(1, 60)), queue="q"))
    assert messages(played.cycle()) == ["Pod ns/p: queue 'q' is not open: it is Closing"]


def test_without_backfill_a_pod_that_asks_nothing_waits_and_says_why() -> None:
    played = Played()
    conf = "actions: allocate\ntiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]}]"
    played.put(ConfigFact(name="scheduler", text=conf, source="x"))
    played.put(pod("p", ask(container())))
    assert messages(played.cycle()) == ["the action 'backfill' is not configured, which serves such pods"]
