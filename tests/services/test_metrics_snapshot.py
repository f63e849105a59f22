"""The snapshot of all streams: usage, states, devices, reasons, and counts."""

import asyncio

import msgspec
import pytest
from deviceshare.model import (
    WHOLE,
    Card,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Gone,
    NodeFact,
    OtherPodFact,
    PodGroupFact,
    PodRequest,
    Problem,
    Synced,
    VolumeBinding,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_cli.explaining import explanation_text
from deviceshare_cli.tables import pods_table
from deviceshare_metrics.core import build_snapshot
from deviceshare_metrics.core.card_rows import card_rows
from deviceshare_metrics.queries import Queries
from support.metrics import exposed, read, receive, snapshot_of
from support.metrics_messages import (
    CARD,
    claim,
    events,
    explain,
    explanation,
    grants,
    ledger,
    node,
    only,
    outcome,
    pod,
    step,
)


def status(core):
    return asyncio.run(Queries(core).status())


def test_a_claim_takes_its_card_and_its_resources_before_the_pod_is_bound():
    snapshot = snapshot_of(read(node(), pod(), ledger(claim())))
    card = only(snapshot.devices)
    assert (card.memory_used, card.cores_used, card.slots_used, card.pods) == (1024, 10, 1, ("default/a",))
    assert (only(snapshot.nodes).used, only(snapshot.nodes).pods) == ({"cpu": 500}, 1)
    shown = only(snapshot.pods)
    assert (shown.state, shown.node, shown.devices[0].memory) == ("Claimed", "n1", 1024)


def test_a_pod_has_its_request_and_owner_and_a_card_the_owners_of_its_pods():
    ask = PodRequest(
        containers=(ContainerRequest("main", (("cpu", 500), ("volcano.sh/vgpu-memory", 1024))),),
        init_containers=(ContainerRequest("init", ()),),
    )
    of_job = [pod(name, owner="Job/train", ask=ask) for name in "ab"]
    snapshot = snapshot_of(read(node(), *of_job, pod("c"), ledger(claim("a"), claim("b"), claim("c"), claim("unseen"))))
    first, *_, last = snapshot.pods
    assert [(each.container, each.resources) for each in first.request] == [
        ("init", {}), ("main", {"cpu": 500, "volcano.sh/vgpu-memory": 1024})
    ]  # fmt: skip
    assert (first.owner, first.held_by) == ("Job/train", "default/Job/train")
    assert (last.owner, last.held_by) == ("", "default/Pod/c")
    assert only(snapshot.devices).owners == ("default/Job/train", "default/Pod/c", "default/Pod/unseen")


def test_a_nominated_claim_takes_nothing_and_its_pod_waits():
    victim = pod("b", node="n1", held=grants(), terminating=True)
    core = read(node(), pod(), victim, ledger(claim(waits_for=(victim[1].uid,))))
    snapshot = snapshot_of(core)
    assert only(snapshot.devices).memory_used == 1024
    assert {each.name: each.state for each in snapshot.pods} == {"a": "Pending", "b": "Bound"}
    assert {each.name: (each.status, each.nominated_node) for each in snapshot.pods} == {
        "a": ("Nominated", "n1"),
        "b": ("Terminating", ""),
    }
    assert snapshot.claims == ()
    read(ledger(claim()), into=core)
    assert {each.name: each.status for each in snapshot_of(core).pods} == {"a": "Claimed", "b": "Terminating"}


def test_a_bound_pod_with_a_claim_counts_once():
    snapshot = snapshot_of(read(node(), pod(node="n1", held=grants()), ledger(claim()), outcome("bound")))
    assert only(snapshot.devices).memory_used == 1024
    assert (only(snapshot.nodes).pods, only(snapshot.nodes).used) == (1, {"cpu": 500})
    assert (only(snapshot.pods).state, only(snapshot.claims).state) == ("Bound", "bound")


def test_containers_that_run_in_turn_count_once_of_a_card():
    def share(name, position, memory, stage=""):
        return ContainerGrant(name, position, "hami-core", (DeviceGrant("GPU-1", 0, memory, 10),), stage)

    held = (share("first", 0, 4000, "init"), share("second", 1, 4000, "init"), share("main", 0, 3000))
    snapshot = snapshot_of(read(node(), pod(), ledger(claim(grants=held))))
    (card,), shown = snapshot.devices, only(snapshot.pods)
    assert (len(shown.devices), card.memory_used) == (3, 4000)
    assert [(each.id, each.memory, each.part) for each in shown.cards] == [("GPU-1", 4000, 4000 / card.memory_total)]


def test_cards_that_are_a_plain_number_are_held_with_a_claim_and_without():
    asked = PodRequest(containers=(ContainerRequest("main", (("nvidia.com/gpu", 2),)),))
    plain = node(cards=(), allocatable={"nvidia.com/gpu": 4})
    core = read(
        plain, pod(node="n1", ask=asked), pod("b"), ledger(claim("b", grants=(), resources=(("nvidia.com/gpu", 1),)))
    )
    snapshot = snapshot_of(core)
    assert sum(card.slots_used for card in snapshot.devices) == 3
    assert {each.name: (len(each.devices), [card.part for card in each.cards]) for each in snapshot.pods} == {
        "a": (2, [2]),
        "b": (1, [1]),
    }


def test_a_pod_that_others_bound_counts_with_what_it_holds_and_asks():
    snapshot = snapshot_of(read(node(), pod(node="n1", held=grants(2048))))
    assert only(snapshot.devices).memory_used == 2048
    # The vGPU is counted on its card, not among the resources of the node, as placement does.
    assert (only(snapshot.nodes).pods, only(snapshot.nodes).used) == (1, {"cpu": 500})


def test_a_whole_card_has_the_size_of_the_nodes_card():
    cards = (Card("0", 0, 1, 8000, 100, mode="gpu-share"),)
    snapshot = snapshot_of(read(node(cards=cards), pod(node="n1", held=grants(WHOLE, 100, "0", "gpu-number"))))
    assert only(snapshot.devices).memory_used == 8000
    assert only(only(snapshot.pods).devices).memory == 8000


def test_a_mig_instance_is_shown_by_its_plugins_name_and_charged_to_its_card():
    cards = (msgspec.structs.replace(CARD, mode="mig"),)
    held = (ContainerGrant("main", 0, "mig", (DeviceGrant("GPU-1", 0, 5120, 14, "0-2"),)),)
    snapshot = snapshot_of(read(node(cards=cards), pod(), ledger(claim(grants=held))))
    assert only(only(snapshot.pods).devices).id == "GPU-1[0-2]"
    assert only(snapshot.devices).memory_used == 5120


def test_an_ended_pod_holds_nothing_but_its_claim_does_until_it_has_left_the_ledger():
    ended = pod(node="n1", ended=True, held=grants())
    assert only(snapshot_of(read(node(), ended)).devices).memory_used == 0
    core = read(node(), ended, ledger(claim()))
    assert only(snapshot_of(core).devices).memory_used == 1024
    assert only(snapshot_of(core).pods).state == "Ended"
    assert only(snapshot_of(read(ledger(), into=core)).devices).memory_used == 0


def test_a_pod_that_is_bound_elsewhere_than_its_claim_counts_on_both_nodes():
    core = read(node(), node("n2"), pod(node="n2", held=grants(512)), ledger(claim()))
    snapshot = snapshot_of(core)
    assert [(card.node, card.memory_used) for card in snapshot.devices] == [("n1", 1024), ("n2", 512)]
    assert (only(snapshot.pods).node, only(snapshot.pods).devices[0].memory) == ("n2", 512)


def test_a_deleted_object_disappears_from_every_list_and_series():
    core = read(node(), pod(node="n1", held=grants()), explanation())
    assert "GPU-1" in exposed(core)
    gone = Gone()
    snapshot = snapshot_of(read((subjects.fact("node", "n1"), gone), (subjects.fact("pod", "uid-a"), gone), into=core))
    assert (snapshot.nodes, snapshot.devices, snapshot.pods) == ((), (), ())
    assert "GPU-1" not in exposed(core)


@pytest.mark.parametrize(
    ("state", "withdraw", "shown", "pod_state"),
    [
        (None, False, "open", "Claimed"),
        (None, True, "withdrawing", "Claimed"),
        ("bound", False, "bound", "Bound"),
        ("refused", False, "refused", "Pending"),
        ("withdrawn", True, "withdrawn", "Pending"),
        ("no such state", False, "open", "Claimed"),
    ],
)
def test_states_of_claims_and_their_pods(state, withdraw, shown, pod_state):
    core = read(node(), pod(), ledger(claim(withdraw=withdraw)))
    if state is not None:
        read(outcome(state, reason="because"), into=core)
    snapshot = snapshot_of(core)
    assert only(snapshot.claims).state == shown
    assert only(snapshot.claims).reason == ("because" if state else "")
    assert only(snapshot.pods).state == pod_state


def test_an_outcome_of_an_older_attempt_does_not_count_for_the_new_one():
    core = read(pod(), ledger(claim(claim_id="second")), outcome("refused"))
    assert only(snapshot_of(core).claims).state == "open"


@pytest.mark.parametrize("turn", [1, -1])
def test_of_several_claims_the_latest_that_was_not_refused_is_where_the_pod_is(turn):
    ledgers = [
        ledger(claim(decided_at=9.0)),
        ledger(claim(claim_id="old", decided_at=1.0), node="n2"),
        ledger(claim(claim_id="new", decided_at=2.0), node="n3"),
    ]
    snapshot = snapshot_of(read(pod(), outcome("refused"), *ledgers[::turn]))
    assert (only(snapshot.pods).state, only(snapshot.pods).node) == ("Claimed", "n3")


def test_why_a_pod_waits():
    problem = Problem("Pod default/c", "limits", "-1", "a number above 0")
    core = read(pod("a"), explanation("a"), pod("b", gates=("x.io/wait",)), pod("c", problems=(problem,)), pod("d"))
    reasons = {shown.name: (shown.state, shown.reason) for shown in snapshot_of(core).pods}
    assert reasons == {
        "a": ("Pending", "0/1 nodes are unavailable: 1 too small."),
        "b": ("Gated", "waits for scheduling gates: x.io/wait"),
        "c": ("Pending", "Pod default/c: limits: '-1' is not valid: expected a number above 0"),
        "d": ("Pending", None),
    }
    read(ledger(claim("a")), into=core)
    assert next(shown.reason for shown in snapshot_of(core).pods if shown.name == "a") is None


def test_status_counts():
    core = read(
        node(problems=(Problem("Node n1", "f", "v", "e"),)), node("n2", ready=False), node("n3", unschedulable=True),
        pod("a"), pod("b"), pod("c", node="n1"), ledger(claim("a"), claim("b", withdraw=True), claim("c")),
        outcome("bound", "c"), (subjects.SYNCED, Synced()),
    )  # fmt: skip
    counts = status(core)
    assert counts.nodes == {"ready": 1, "not_ready": 1, "unschedulable": 1}
    assert counts.pods == {"Pending": 0, "Claimed": 2, "Bound": 1, "Gated": 0, "Ended": 0, "OtherScheduler": 0}
    assert (counts.claims["open"], counts.claims["withdrawing"], counts.claims["bound"]) == (1, 1, 1)
    assert (counts.open_claims, counts.problems, counts.undecodable, counts.synced) == (2, 1, 0, True)


def test_a_copy_of_the_store_does_not_change():
    core = read(node(), pod(), events("placement", step("seen", 1.0)))
    copy, histories = core.store.copy(), dict(core.store.histories)
    before = build_snapshot(copy)
    read((subjects.fact("node", "n1"), Gone()), pod("b"), ledger(claim()), explanation(), into=core)
    read(events("placement", step("bound", 2.0)), into=core)
    assert build_snapshot(copy) == before != snapshot_of(core)
    assert copy.histories == histories != core.store.histories


def test_what_cannot_be_decoded_leaves_the_core_as_it_was():
    core = read(node(), pod())
    before = snapshot_of(core)
    for subject, data in [
        (subjects.fact("node", "n1"), b"\xc1"),
        (subjects.fact("node", "n1"), encode(NodeFact(name="n1"))[:-1]),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "pod", "uid": 7})),
        (subjects.fact("pod", "uid-a"), msgspec.msgpack.encode({"kind": "no such kind"})),
        (subjects.ledger("n1"), b""),
        (subjects.event("binder"), msgspec.msgpack.encode([])),
    ]:
        with pytest.raises(msgspec.MsgspecError):
            receive(core, subject, data)
    assert snapshot_of(core) == before


def test_unknown_fields_and_an_ask_of_another_form_are_tolerated():
    later = msgspec.msgpack.decode(encode(pod(node="n1", held=grants())[1])) | {"mood": ["good"], "ask": [1, 2]}
    core = read(node())
    receive(core, subjects.fact("pod", "uid-a"), msgspec.msgpack.encode(later))
    assert only(snapshot_of(core).devices).memory_used == 1024
    assert only(snapshot_of(core).nodes).used == {}


def test_forged_devices_of_absent_cards_are_not_counted():
    core = read(node(), pod(node="n1", held=grants(card="GPU-forged")))
    assert only(snapshot_of(core).devices).memory_used == 0
    assert "GPU-forged" not in exposed(core)


def test_the_queue_of_a_pod_is_that_of_its_gang():
    gang = (subjects.fact("podgroup", "default/g"), PodGroupFact(key="default/g", queue="research", min_member=2))
    core = read(gang, pod("a", group="default/g", queue="default"), pod("b", queue="own"), pod("c"))
    assert [shown.queue for shown in snapshot_of(core).pods] == ["research", "own", "default"]


def test_a_waiting_pod_of_another_scheduler_is_shown_with_the_served_names():
    other = OtherPodFact(uid="o", namespace="ns", name="x", scheduler="default-scheduler", served=("a", "b"))
    group = PodGroupFact(key="ns/g", min_member=1)
    core = read((subjects.fact("otherpod", "o"), other), (subjects.fact("podgroup", "ns/g"), group))
    snapshot = snapshot_of(core)
    (shown,) = snapshot.pods
    reason = 'spec.schedulerName is "default-scheduler": deviceshare places pods with a or b'
    assert (shown.state, shown.scheduler, shown.reason) == ("OtherScheduler", "default-scheduler", reason)
    assert status(core).pods["OtherScheduler"] == 1
    assert 'deviceshare_pods{state="otherscheduler"} 1.0' in exposed(core)
    assert 'deviceshare_queue_pods{queue=""' not in exposed(core)
    read(pod("a", queue="q"), into=core)
    assert 'deviceshare_queue_pods{queue="q",state="pending"} 1.0' in exposed(core)
    assert 'deviceshare_queue_pods{queue="q",state="otherscheduler"}' not in exposed(core)
    read((subjects.fact("pod", "uid-a"), Gone(revision="1")), into=core)
    read((subjects.fact("otherpod", "o"), Gone(revision="2")), into=core)
    assert snapshot_of(core).pods == ()


def test_problems_of_devices_are_those_of_the_pod_and_of_its_node():
    lost = Problem(
        "Pod default/a", "card missing", "the pod holds GPU-9, and node n1 does not register it any more", ""
    )
    core = read(node(), pod(node="n1", held=grants(card="GPU-9"), problems=(lost,)))
    snapshot = snapshot_of(core)
    text = "Pod default/a: the pod holds GPU-9, and node n1 does not register it any more"
    assert only(snapshot.nodes).problems == only(snapshot.pods).problems == (text,)
    assert 'deviceshare_device_problems{problem="card_missing"} 1.0' in exposed(core)
    assert 'deviceshare_device_problems{problem="node_missing"} 0.0' in exposed(core)
    _, (row,) = pods_table(snapshot.pods, False, 0.0)
    assert row[-1] == text
    (row,) = card_rows(core.store)
    assert row.problems == 1


def test_a_node_uses_pods_and_the_resources_of_its_cards():
    allocatable = {
        "cpu": 4000,
        "pods": 3,
        "volcano.sh/vgpu-number": 10,
        "volcano.sh/vgpu-memory": 11178,
        "x.com/fpga": 2,
    }
    core = read(node(allocatable=allocatable), pod(), pod("b", node="n1"), ledger(claim()))
    (found,) = snapshot_of(core).nodes
    assert found.used == {"cpu": 1000, "pods": 2, "volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024}
    assert found.pods == 2


def test_an_overcommitted_card_is_a_problem_of_its_node_and_pods():
    core = read(node(), pod(node="n1"), ledger(claim(grants=grants(memory=16000))))
    problem = "card GPU-1 is overcommitted: 16000 of 11178 MiB are allocated"
    snapshot = snapshot_of(core)
    assert (only(snapshot.nodes).problems, only(snapshot.pods).problems) == ((problem,), (problem,))
    assert [row.problems for row in card_rows(core.store)] == [1]
    core = read(node(), pod(node="n1"), pod("b"), ledger(claim()))
    assert [each.problems for each in (*snapshot_of(core).nodes, *snapshot_of(core).pods)] == [(), (), ()]


def test_a_claimed_pod_whose_volumes_are_bound_first():
    bindings = (VolumeBinding("default/data", "1", volume="pv"), VolumeBinding("default/cache", "2", node="n1"))
    core = read(node(), pod(), pod("plain"), ledger(claim(bindings=bindings), claim("plain")))
    shown = {each.name: (each.state, each.reason) for each in snapshot_of(core).pods}
    reason = (
        "its PersistentVolumeClaims are bound first: default/data to PersistentVolume pv, "
        "default/cache to a volume that is made on node n1"
    )
    assert shown == {"a": ("Claimed", reason), "plain": ("Claimed", None)}
    answer = explain(core, "default", "a")
    assert answer is not None
    assert reason in explanation_text("default/a", answer, None, 0.0)
    assert "deviceshare_pods_binding_volumes 1.0" in exposed(core)
    read(pod(node="n1"), into=core)
    assert snapshot_of(core).pods[0].reason is None
    assert "deviceshare_pods_binding_volumes 0.0" in exposed(core)


def test_a_pod_whose_claim_was_refused_binds_no_volumes():
    bindings = (VolumeBinding("default/data", "1", volume="pv"),)
    core = read(node(), pod(), ledger(claim(bindings=bindings)), outcome("refused"))
    assert snapshot_of(core).binding_volumes == 0
