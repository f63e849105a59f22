"""The local cluster binds PersistentVolumeClaims as Kubernetes' controller does, and makes volumes for them."""

from collections.abc import Awaitable, Callable
from typing import Any

from deviceshare.model import HOSTNAME
from deviceshare_cluster.interface import Object
from deviceshare_cluster.local import LocalCluster
from support.controlled import controlled, until

ZONE = "topology.kubernetes.io/zone"
COMPLETED, SELECTED = "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"


def storage_class(name: str, provisioner: str = "disk.example.com", mode: str = "Immediate", **more: Any) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name, **more.pop("metadata", {})}, "provisioner": provisioner,
        "volumeBindingMode": mode, **more,
    }  # fmt: skip


LATE = storage_class("late", mode="WaitForFirstConsumer")


def claim(name: str, of_class: str | None = "none", size: str = "2Gi", **spec: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if of_class is not None:
        spec["storageClassName"] = of_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(name: str, size: str = "2Gi", **spec: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "none", **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


async def bound(local: LocalCluster, name: str) -> str:
    """Return the volume of a claim that is bound, and whose volume agrees; else ''."""
    found = await local.get("PersistentVolumeClaim", "", name)
    assert found is not None
    there = found["spec"].get("volumeName")
    if not there or found.get("status", {}).get("phase") != "Bound":
        return ""
    assert found["metadata"]["annotations"][COMPLETED] == "yes"
    of_claim = await local.get("PersistentVolume", "", there)
    if of_claim is None or of_claim["status"]["phase"] != "Bound":
        return ""
    assert of_claim["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    return str(there)


def is_bound(local: LocalCluster, name: str, to: str = "") -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        found = await bound(local, name)
        return found == to if to else bool(found)

    return check


def phase(local: LocalCluster, name: str, wanted: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        found = await local.get("PersistentVolume", "", name)
        return ((found or {}).get("status") or {}).get("phase", "") == wanted if found or wanted else True

    return check


async def test_immediate_claims_get_the_smallest_volumes_that_are_large_enough(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([volume("small", "1Gi"), volume("large", "9Gi"), volume("right", "3Gi")])
        await local.make([claim("first"), claim("second")])
        await until(is_bound(local, "first"))
        await until(is_bound(local, "second"))
        assert {await bound(local, "first"), await bound(local, "second")} == {"right", "large"}
        await until(phase(local, "small", "Available"))
        await local.delete("PersistentVolumeClaim", "", "first")
        await local.delete("PersistentVolumeClaim", "", "second")
        await until(phase(local, "right", "Released"))


async def test_a_reserved_volume_is_bound_to_its_claim(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(volume("mine", "5Gi", claimRef={"namespace": "default", "name": "data"}))
        await until(phase(local, "mine", "Available"))
        await local.make([volume("right"), claim("data")])
        await until(is_bound(local, "data", "mine"))


async def test_volumes_are_made_at_once_or_on_the_selected_node(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([storage_class("now"), LATE, node("n1", **{ZONE: "z1", HOSTNAME: "n1"})])
        await local.make([claim("soon", "now"), claim("later", "late")])
        await until(is_bound(local, "soon"))
        assert await bound(local, "later") == ""
        assert await local.select_node("default", "later", "another", "n1") is None
        waiting = await local.get("PersistentVolumeClaim", "", "later")
        assert waiting is not None
        selected = await local.select_node("default", "later", waiting["metadata"]["uid"], "n1")
        assert selected is not None
        assert selected.value == "n1"
        await until(is_bound(local, "later"))
        made = await local.get("PersistentVolume", "", await bound(local, "later"))
        assert made is not None
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["z1"]}]
        await local.delete("PersistentVolumeClaim", "", "later")
        await until(phase(local, made["metadata"]["name"], ""))


async def test_a_volume_cannot_be_made_on_a_node_that_the_class_excludes(local: LocalCluster) -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]
    async with controlled(local):
        await local.make([LATE | {"allowedTopologies": topologies}, node("n1", **{ZONE: "z1"}), claim("data", "late")])
        found = await local.get("PersistentVolumeClaim", "", "data")
        assert found is not None
        await local.select_node("default", "data", found["metadata"]["uid"], "n1")

        async def rejected() -> bool:
            now = await local.get("PersistentVolumeClaim", "", "data")
            assert now is not None
            changed = now["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]
            return changed and SELECTED not in (now["metadata"].get("annotations") or {})

        await until(rejected)


async def test_claims_without_a_class_get_the_default_one(local: LocalCluster) -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    async with controlled(local):
        await local.make([storage_class("other"), storage_class("usual", metadata=default), claim("data", None)])
        await until(is_bound(local, "data"))
        found = await local.get("PersistentVolumeClaim", "", "data")
        assert found is not None
        assert found["spec"]["storageClassName"] == "usual"


async def test_a_volume_is_reserved_once(local: LocalCluster) -> None:
    await local.apply(volume("disk"))
    first = await local.reserve_volume("disk", "default", "one", "uid-one")
    assert first is not None
    assert first.value == "uid-one"
    assert await local.reserve_volume("disk", "default", "one", "uid-one") == first
    second = await local.reserve_volume("disk", "default", "two", "uid-two")
    assert second is not None
    assert second.value == ""
    assert await local.reserve_volume("none", "default", "one", "uid-one") is None


async def test_an_object_of_another_form_stops_nothing(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([volume("bad", claimRef="data"), volume("odd", capacity=3), claim("no-size", resources=None)])
        await local.make([volume("good", "4Gi"), claim("data", size="3Gi")])
        await until(is_bound(local, "data", "good"))
