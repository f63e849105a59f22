"""The lines of pods that change."""

from typing import Any

import msgspec
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.pods import counted_devices, shown_devices
from deviceshare_cluster.interface import Change, ChangeType, Listed
from deviceshare_metrics.api import Pod, PodCard, PodDevice
from msgspec.structs import replace


def held(raw: bytes) -> tuple[PodDevice, ...]:
    return (PodDevice(container="main", id="0", memory=1024, cores=0),) if b"gpu-index" in raw else ()


def change(name: str, *, scheduler: str = "volcano", revision: int = 1, uid: str = "u", **pod: Any) -> Change:
    annotations = {"volcano.sh/gpu-index": "0"} if pod.get("node") else {}
    conditions = [{"type": "PodScheduled", "status": "False", "message": pod["reason"]}] if "reason" in pod else []
    raw = msgspec.json.encode(
        {
            "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": annotations},
            "spec": {"schedulerName": scheduler, **({"nodeName": pod["node"]} if "node" in pod else {})},
            "status": {"phase": pod.get("phase", "Pending"), "conditions": conditions},
        }
    )
    return Change(ChangeType.APPLIED, "Pod", "default", name, revision, raw)


def board() -> LiveTable:
    return LiveTable(("volcano",), held)


def test_a_placement_is_reported_once_with_its_devices() -> None:
    pods = board()
    assert pods.take([change("a"), Listed(1)]) == []
    assert pods.unanswered
    assert pods.take([change("a", node="n1")]) == ["default/a -> n1: 0 (1024 MiB)"]
    assert pods.take([change("a", node="n1", phase="Running")]) == []
    assert not pods.unanswered
    assert pods.bound == 1


def test_a_reason_is_reported_when_it_changes() -> None:
    pods = board()
    assert pods.take([change("a", reason="0/5 nodes")]) == ["default/a: 0/5 nodes"]
    assert pods.take([change("a", reason="0/5 nodes")]) == []
    assert pods.take([change("a", reason="0/6 nodes")]) == ["default/a: 0/6 nodes"]
    assert not pods.unanswered
    assert [pod.ref for pod in pods.waiting] == ["default/a"]


def test_pods_of_other_schedulers_are_ignored() -> None:
    pods = board()
    assert pods.take([change("a", scheduler="default-scheduler", node="n1")]) == []
    assert not pods.pods


def test_a_deletion_is_reported_and_a_pod_of_the_same_name_is_new() -> None:
    pods = board()
    pods.take([change("a", node="n1")])
    gone = Change(ChangeType.DELETED, "Pod", "default", "a", 5, b"")
    assert pods.take([gone, gone]) == ["default/a deleted"]
    pods.take([change("a", node="n1")])
    assert pods.take([change("a", uid="v", node="n1")]) == ["default/a -> n1: 0 (1024 MiB)"]


def test_the_revision_is_the_highest_of_all_kinds() -> None:
    pods = board()
    pods.take([Change(ChangeType.APPLIED, "Node", "", "n1", 9, b"{}"), change("a", revision=7)])
    assert pods.revision == 9


POD = Pod(
    namespace="default", name="a", uid="u", scheduler="", node="n1", state="Bound", devices=(), reason=None, queue="q",
    group="", problems=(),
)  # fmt: skip


def device(container: str, name: str, memory: int, cores: int) -> PodDevice:
    return PodDevice(container=container, id=name, memory=memory, cores=cores)


def test_equal_shares_of_cards_of_a_model_are_counted() -> None:
    def shown(*devices: PodDevice, types: str = "A100") -> str:
        cards = tuple(PodCard(id=each.id, type=types, part=0.5, memory=each.memory) for each in devices)
        return counted_devices(replace(POD, devices=devices, cards=cards))

    cards = [device("main", f"GPU-{at}", 3000, 50) for at in range(8)]
    assert shown(*cards) == "8 × A100 (3000 MiB, 50 cores)"
    assert shown(cards[0]) == shown_devices(cards[:1]) == "GPU-0 (3000 MiB, 50 cores)"
    for other in ({"memory": 4000}, {"container": "side"}):
        different = [*cards, replace(cards[0], **other)]
        assert shown(*different) == shown_devices(different)
    assert shown(*cards, types="") == shown_devices(cards)


def test_containers_are_named_if_there_are_several() -> None:
    one, two = device("main", "GPU-1", 3000, 50), device("side", "GPU-2", -1, 100)
    assert shown_devices([one, device("main", "GPU-3", 0, 0)]) == "GPU-1 (3000 MiB, 50 cores), GPU-3"
    assert shown_devices([one, two]) == "main: GPU-1 (3000 MiB, 50 cores); side: GPU-2 (whole card)"
