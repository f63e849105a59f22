"""Pods are handed over to device plugins one after the other where a plugin could take one for another."""

import msgspec
import pytest
from deviceshare.families import SERVED
from deviceshare.model import Outcome, VolumeBinding
from deviceshare_binder.core import PATIENCE
from deviceshare_binder.core.bind_task import UNANSWERED
from deviceshare_binder.core.commands import Annotate, BindPod, BindVolumes, FencePod, ReadPod, SetPodCondition
from deviceshare_binder.core.events import ClusterFailed, VolumeChanged, VolumeClaimChanged, VolumesRequested
from deviceshare_binder.core.outcomes import FOLD
from deviceshare_binder.core.views import NodeView, VolumeClaimView, VolumeView
from deviceshare_bus.cores.core import Count, Unreadable
from deviceshare_bus.messages.subjects import Stream, ledger
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver, messages
from support.binder_scene import of
from support.handoff import NOW, Cluster, claim, memory, part, pod, vgpus


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (vgpus(1), vgpus(2), True),
        (vgpus(2), vgpus(2), False),
        (vgpus(1, 1), vgpus(2), False),  # found by two, asked for one by one
        (vgpus(1, 1), vgpus(1), False),
        (vgpus(2), vgpus(1) + vgpus(2, stage="init"), False),
        (memory(1024), memory(2048), True),
        (memory(1024), memory(1024), False),
        (memory(1024) + memory(2048), memory(2048), False),
        (memory(1024), memory(2048) + memory(1024), False),
        (memory(1024) + memory(2048), memory(3072), True),
        (memory(1024), vgpus(1), True),
        (part(1), part(2), True),
        (part(2), part(2), False),
        (part(1) + part(1), part(2), False),  # parts of one chip
        (part(1), part(2) + part(1), False),
        ((), (), True),
    ],
)
def test_pods_that_a_plugin_cannot_distinguish_are_not_in_handoff_together(first, second, together):
    assert Cluster(first, second).begun() == (["p0", "p1"] if together else ["p0"])


def test_the_next_is_bound_when_the_plugin_has_served_the_first():
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", fact=False)
    assert cluster.begun() == [], "no fact shows yet whether it is served"
    cluster.fact("p0", "2 vGPUs")
    assert cluster.begun() == []
    cluster.fact("p0")
    assert cluster.begun() == ["p1"]


def test_a_pod_that_is_served_when_the_cluster_answers_blocks_no_other():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW, {SERVED: "true"})
    assert cluster.begun() == ["p1"]


def test_a_pod_whose_plugin_has_marked_it_is_waited_for_until_kubelet_has_admitted_it():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    marked = {"volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ""}
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW, marked)
    assert cluster.begun() == []


def test_claims_with_a_common_key_are_bound_in_order_and_others_overtake_them():
    cluster = Cluster(vgpus(2), vgpus(1, 1), vgpus(1), vgpus(3))
    assert cluster.begun() == ["p0", "p3"], "the third waits for the second, which needs both counts"
    cluster.bound("p0")
    assert cluster.begun() == ["p1"]
    cluster.bound("p1")
    assert cluster.begun() == ["p2"]


@pytest.mark.parametrize("answer", [BindState.REFUSED, BindState.GONE])
def test_a_pod_that_is_not_bound_releases_the_next_claim(answer):
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", answer, "", "no", NOW)
    if answer is BindState.REFUSED:
        assert cluster.begun() == [], "until the fence stands"
        cluster.core.read_answered("claim-p0", "", NOW)
    assert cluster.begun() == ["p1"]


def test_a_binding_without_an_answer_is_retried_before_the_claims_that_wait_for_it():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.failed("claim-p0", NOW, 0.0)
    assert cluster.begun(cluster.core.next_due()) == ["p0"]


def test_a_pod_of_another_scheduler_that_waits_for_its_plugin_is_waited_for():
    cluster = Cluster(vgpus(2))
    cluster.grants["theirs"] = vgpus(2)
    cluster.fact("theirs", "2 vGPUs")
    assert cluster.begun() == []
    cluster.core.pod("theirs", None)
    assert cluster.begun() == ["p0"]


def test_a_claim_that_waits_can_be_withdrawn():
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    cluster.begun()
    claims = {f"claim-{uid}": claim(uid, vgpus(2)) for uid in ("p0", "p1", "p2")}
    claims["claim-p1"] = msgspec.structs.replace(claims["claim-p1"], withdraw=True)
    cluster.core.ledger("n1", claims.values())
    (fence,) = cluster.core.take(NOW)
    assert isinstance(fence, FencePod)
    cluster.core.read_answered("claim-p1", "", NOW)
    cluster.bound("p0")
    assert cluster.begun() == ["p2"]


def test_a_withdrawn_claim_in_the_middle_of_the_queue_does_not_delay_claims_behind_it():
    cluster = Cluster(vgpus(2), vgpus(1, 1), vgpus(1))
    assert cluster.begun() == ["p0"], "the third waits for the second, which waits for the first"
    withdrawn = msgspec.structs.replace(claim("p1", cluster.grants["p1"]), withdraw=True)
    others = [claim(uid, cluster.grants[uid]) for uid in ("p0", "p2")]
    cluster.core.ledger("n1", [others[0], withdrawn, others[1]])
    requests = {type(each): each.uid for each in cluster.core.take(NOW)}
    assert requests == {FencePod: "p1", BindPod: "p2"}, "though the first is not served yet"
    cluster.core.read_answered("claim-p1", "", NOW)
    (outcomes,) = messages(cluster.core.take(NOW))
    assert [(each.claim, each.state) for each in outcomes.outcomes] == [("claim-p1", "withdrawn")]


def test_a_withdrawn_claim_leaves_the_queue_even_if_its_ledger_drops_it():
    cluster = Cluster(vgpus(2), vgpus(1, 1), vgpus(1))
    assert cluster.begun() == ["p0"]
    cluster.claims("p0", "p2")
    assert cluster.begun() == ["p2"]


def test_a_claim_that_leaves_the_ledger_ends_its_handoff():
    cluster = Cluster(vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", fact=False)
    assert cluster.begun() == []
    cluster.claims("p1")
    assert cluster.begun() == ["p1"]


def test_after_a_restart_a_pod_that_ended_unserved_is_taken_out_of_the_plugins_sight():
    core = BinderDriver(NOW)
    core.node("n1", NodeView(name="n1"))
    ended = pod("old", vgpus(2), "n1", unserved=[("hami-core", "2 vGPUs")], ended=True)
    core.pod("old", ended)
    core.pod("new", pod("new", vgpus(2)))
    core.start()
    core.ledger("n1", [claim("new", vgpus(2))])
    (given_up,) = core.take(NOW)
    assert (type(given_up), given_up.uid) == (Annotate, "old")
    assert given_up.annotations["volcano.sh/devices-to-allocate"] == ""
    core.pod("old", ended)
    assert core.take(NOW) == [], "once; the next pod waits until the annotation is seen"
    core.pod("old", pod("old", vgpus(2), "n1", ended=True))
    assert [(type(each), each.uid) for each in core.take(NOW)] == [(BindPod, "new")]


def test_a_held_pod_that_another_scheduler_binds_blocks_no_other():
    cluster = Cluster(vgpus(2), (), vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0", "p1"]
    cluster.bound("p0")
    cluster.fact("p2")  # bound and served, before the core is asked
    begun = [(type(one), one.uid) for one in cluster.core.take(NOW) if isinstance(one, BindPod | ReadPod)]
    assert sorted(begun, key=str) == [(BindPod, "p3"), (ReadPod, "p2")]


def stuck_counts(cluster):
    return cluster.core.notes.count(Count("hand_overs_stuck"))


def test_a_stuck_pod_is_reported_with_the_claims_that_wait_for_it():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.bound("p0", "2 vGPUs")
    cluster.core.take(NOW)
    cluster.core.take(NOW + FOLD)
    cluster.core.outcomes_written("n1", 1)
    assert cluster.core.next_due() == NOW + PATIENCE
    cluster.core.written_reports()
    cluster.core.take(NOW + PATIENCE)
    assert stuck_counts(cluster) == 1
    cluster.core.take(NOW + 2 * PATIENCE)
    assert stuck_counts(cluster) == 1, "once"
    assert cluster.core.detail["stuck"] == 1
    report, waits, event = cluster.core.written_reports()
    record = report.record
    assert (record.uid, record.reason, record.warning) == ("p0", "DevicePluginStuck", True)
    assert "the vGPU device plugin of n1 does not serve this pod, which has 2 vGPUs" in record.message
    assert waits.uid == event.record.uid == "p1"
    assert "has not served pod default/p0 yet" in waits.message
    cluster.fact("p0")
    assert cluster.core.detail["stuck"] == 0


def messages_of(cluster, uid):
    """Return the conditions of a pod that were written since the last call."""
    return [one.message for one in of(SetPodCondition, cluster.core.written_reports()) if one.uid == uid]


@pytest.mark.parametrize("held_later", [False, True])
def test_a_claim_behind_a_pod_whose_binding_has_no_known_result_says_so(held_later):
    cluster = Cluster(vgpus(2), vgpus(2))
    if held_later:
        cluster.claims("p0")
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", fact=False)
    cluster.core.take(NOW + PATIENCE - 1)
    assert messages_of(cluster, "p1") == []
    cluster.core.take(NOW + PATIENCE)
    if held_later:
        assert messages_of(cluster, "p1") == [], "it does not wait"
        cluster.claims("p0", "p1")
        cluster.core.take(NOW + PATIENCE + 1)
    unknown = "pod default/p0, which has 2 vGPUs as well, is being bound there, and the result is not known"
    assert messages_of(cluster, "p1") == [f"waits on n1: {unknown}"]
    assert (stuck_counts(cluster), cluster.core.detail["stuck"]) == (0, 0)
    cluster.fact("p0", "2 vGPUs")
    cluster.core.take(NOW + 3 * PATIENCE)
    (message,) = messages_of(cluster, "p1")
    assert "has not served pod default/p0 yet" in message


def test_a_pod_that_ended_unserved_is_taken_out_of_the_plugins_sight_before_the_next():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.bound("p0", "2 vGPUs")
    cluster.fact("p0", "2 vGPUs", ended=True)
    (given_up,) = [one for one in cluster.core.take(NOW) if isinstance(one, Annotate)]
    assert given_up.uid == "p0"
    assert given_up.annotations["volcano.sh/devices-to-allocate"] == ""
    cluster.fact("p0", ended=True)
    assert cluster.begun() == ["p1"]


def test_after_a_restart_open_claims_are_read_before_others_like_them_are_bound():
    core = BinderDriver(NOW)
    core.node("n1", NodeView(name="n1"))
    for uid in ("old", "new"):
        core.pod(uid, pod(uid, vgpus(2)))
    core.ledger("n1", [claim("old", vgpus(2))])
    core.start()
    core.ledger("n1", [claim(uid, vgpus(2)) for uid in ("old", "new")])
    (read,) = core.take(NOW)
    assert isinstance(read, ReadPod)
    core.read_answered("claim-old", "n1", NOW, None)
    assert not [one for one in core.take(NOW) if isinstance(one, BindPod)], "bound, and no fact shows that it is served"
    core.pod("old", pod("old", vgpus(2), "n1"))
    assert [one.uid for one in core.take(NOW) if isinstance(one, BindPod)] == ["new"]


def test_after_a_restart_a_binding_without_a_fact_blocks_others():
    core = BinderDriver(NOW)
    core.node("n1", NodeView(name="n1"))
    for uid in ("old", "new"):
        core.pod(uid, pod(uid, vgpus(2)))
    core.ledger("n1", [claim("old", vgpus(2))])
    core.outcomes("n1", 1, {"claim-old": Outcome("claim-old", "old", "bound")})
    core.start()
    core.ledger("n1", [claim(uid, vgpus(2)) for uid in ("old", "new")])
    assert core.take(NOW) == []
    core.pod("old", pod("old", vgpus(2), "n1"))
    assert [one.uid for one in core.take(NOW) if isinstance(one, BindPod)] == ["new"]


@pytest.mark.parametrize(("devices", "state"), [(vgpus(2), "bound"), (vgpus(1), "refused")])
def test_a_pod_that_is_bound_already_is_ours_if_it_has_the_claims_devices(devices, state):
    cluster = Cluster(vgpus(2))
    (bind,) = cluster.core.take(NOW)
    other = Cluster(devices).core.take(NOW - 77)[0]
    written = {**other.annotations, "volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ""}
    cluster.core.bind_answered(bind.claim, BindState.ALREADY, "n1", "", NOW, written)
    (message,) = messages(cluster.core.take(NOW))
    (outcome,) = message.outcomes
    reason = "" if state == "bound" else "the pod is bound to n1 with other devices"
    assert (outcome.state, outcome.reason) == (state, reason)


@pytest.mark.parametrize("refused", [True, False])
def test_a_binding_that_the_cluster_refuses_for_good_holds_no_others_but_one_that_may_have_succeeded_does(refused):
    cluster = Cluster(vgpus(2), vgpus(2))
    (bind,) = of(BindPod, cluster.core.take(NOW))
    cluster.core.handle(ClusterFailed(bind, "metadata.annotations: Too long", refused, 0.0), NOW)
    (following,) = of(BindPod, cluster.core.take(NOW + 0.2))
    assert following.uid == ("p1" if refused else "p0")


def test_a_binding_without_an_answer_is_waited_for_as_long_as_it_may_be_executed():
    cluster = Cluster(vgpus(2), vgpus(2))
    begun, now = [], NOW
    while now < NOW + 2 * UNANSWERED:
        for bind in of(BindPod, cluster.core.take(now)):
            begun.append((bind.uid, now))
            if bind.uid == "p0":  # the first request times out, all later ones are refused
                cluster.core.handle(ClusterFailed(bind, "", len(begun) > 1, 0.0), now)
        now += 1.0
    others = [at for uid, at in begun if uid == "p1"]
    assert others
    assert others[0] >= NOW + UNANSWERED


def test_others_do_not_wait_for_a_pod_whose_turn_it_is_and_that_may_not_be_fenced():
    cluster = Cluster(vgpus(1), vgpus(1), vgpus(1))
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", "1 vGPU")
    assert cluster.begun() == [], "p1 and p2 wait"
    cluster.core.handle(Unreadable(Stream.LEDGER, ledger("n1"), 2, "not valid"))
    cluster.fact("p0")
    assert cluster.begun() == [], "it is the turn of p1, but the node is paused"
    cluster.core.pod("p1", pod("p1", vgpus(1), gates=["later"]))
    cluster.claims("p0", "p1", "p2")
    assert of(FencePod, cluster.core.take(NOW))
    cluster.core.failed("claim-p1", NOW, 0.0, final=True)
    assert cluster.begun() == ["p2"]


def test_others_do_not_wait_for_a_pod_whose_turn_it_is_and_whose_volume_is_lost():
    cluster = Cluster(vgpus(1), vgpus(1), vgpus(1))
    binding = VolumeBinding("ml/data", "uid-data", volume="pv")
    claims = [
        claim("p0", vgpus(1)),
        msgspec.structs.replace(claim("p1", vgpus(1)), bindings=(binding,)),
        claim("p2", vgpus(1)),
    ]
    data = VolumeClaimView(key="ml/data", uid="uid-data", revision="5", volume="pv", bound=True)
    reserved = VolumeView(name="pv", revision="7", claim="ml/data", claim_uid="uid-data")
    cluster.core.handle(VolumeChanged("pv", reserved))
    cluster.core.handle(VolumeClaimChanged("ml/data", data))
    cluster.core.ledger("n1", claims)
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", "1 vGPU")
    assert cluster.begun() == [], "p1 and p2 wait"
    cluster.core.handle(VolumeClaimChanged("ml/data", msgspec.structs.replace(data, volume="", bound=False)))
    cluster.fact("p0")
    commands = cluster.core.take(NOW)
    assert of(BindVolumes, commands)
    assert not of(BindPod, commands), "it is the turn of p1"
    cluster.core.handle(VolumesRequested("claim-p1", revisions={"pv": "7"}), NOW)
    assert cluster.begun() == ["p2"]
