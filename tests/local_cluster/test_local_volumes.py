"""The local cluster binds PersistentVolumeClaims as Kubernetes' controller does, and makes volumes for them."""

from collections.abc import Awaitable, Callable
from typing import Any

from deviceshare.model import HOSTNAME
from deviceshare_cluster.interface import Object
from deviceshare_localcluster import LocalCluster
from support.controlled import controlled
from support.waiting import until

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
    if found is None:
        return ""
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
        selected = await local.select_node("default", "later", waiting["metadata"]["uid"], "n1")
        assert selected.value == "n1"
        await until(is_bound(local, "later"))
        made = await local.get("PersistentVolume", "", await bound(local, "later"))
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["z1"]}]
        await local.delete("PersistentVolumeClaim", "", "later")
        await until(phase(local, made["metadata"]["name"], ""))


async def test_a_volume_cannot_be_made_on_a_node_that_the_class_excludes(local: LocalCluster) -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]
    async with controlled(local):
        await local.make([LATE | {"allowedTopologies": topologies}, node("n1", **{ZONE: "z1"}), claim("data", "late")])
        found = await local.get("PersistentVolumeClaim", "", "data")
        await local.select_node("default", "data", found["metadata"]["uid"], "n1")

        async def rejected() -> bool:
            now = await local.get("PersistentVolumeClaim", "", "data")
            changed = now["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]
            return changed and SELECTED not in (now["metadata"].get("annotations") or {})

        await until(rejected)


async def test_claims_without_a_class_get_the_default_one(local: LocalCluster) -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    async with controlled(local):
        await local.make([storage_class("other"), storage_class("usual", metadata=default), claim("data", None)])
        await until(is_bound(local, "data"))
        found = await local.get("PersistentVolumeClaim", "", "data")
        assert found["spec"]["storageClassName"] == "usual"


async def test_a_volume_is_reserved_once(local: LocalCluster) -> None:
    await local.apply(volume("disk"))
    first = await local.reserve_volume("disk", "default", "one", "uid-one")
    assert first.value == "uid-one"
    assert await local.reserve_volume("disk", "default", "one", "uid-one") == first
    second = await local.reserve_volume("disk", "default", "two", "uid-two")
    assert second.value == ""
    assert await local.reserve_volume("none", "default", "one", "uid-one") is None


def user(name: str, *volumes: str, uid: str = "") -> Object:
    """Return a pod with generic ephemeral volumes."""
    of_class = claim("", "now")["spec"]
    template = {"metadata": {"labels": {"app": "db"}, "annotations": {"kept": "yes"}, "name": "not-this"}}
    found = [{"name": each, "ephemeral": {"volumeClaimTemplate": template | {"spec": of_class}}} for each in volumes]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | ({"uid": uid} if uid else {}),
        "spec": {"containers": [{"name": "c", "image": "busybox"}], "volumes": found},
    }  # fmt: skip


def owner_of(local: LocalCluster, name: str, wanted: str) -> Callable[[], Awaitable[bool]]:
    """Return whether a claim has an owner with this uid, '' for: the claim does not exist."""

    async def check() -> bool:
        found = await local.get("PersistentVolumeClaim", "default", name)
        owners = found["metadata"].get("ownerReferences", []) if found else []
        return [each["uid"] for each in owners] == [wanted] if found and wanted else found is None and not wanted

    return check


async def test_ephemeral_volumes_get_claims_that_go_with_their_pod(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([storage_class("now")])
        # "a-b" with the volume "c" and "a" with "b-c" have a name in common: the first one owns the claim.
        await local.apply(user("a-b", "c", uid="first"))
        await until(owner_of(local, "a-b-c", "first"))
        await until(is_bound(local, "a-b-c"))
        await local.apply(user("a", "d", "b-c", uid="second"))
        await until(owner_of(local, "a-d", "second"))
        made = await local.get("PersistentVolumeClaim", "default", "a-d")
        assert made["metadata"]["labels"] == {"app": "db"}
        assert made["metadata"]["annotations"]["kept"] == "yes"
        assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert made["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "second"}
        assert made["metadata"]["ownerReferences"] == [owner | {"controller": True, "blockOwnerDeletion": True}]
        assert await owner_of(local, "a-b-c", "first")()
        await local.delete("PersistentVolumeClaim", "default", "a-d")
        await until(owner_of(local, "a-d", "second"))
        await local.delete("Pod", "default", "a-b")
        await until(owner_of(local, "a-b-c", "second"))
        await local.delete("Pod", "default", "a")
        await until(owner_of(local, "a-b-c", ""))
        await until(owner_of(local, "a-d", ""))


async def test_a_claim_of_another_owner_is_no_ephemeral_volume(local: LocalCluster) -> None:
    await local.make([claim("a-data"), user("a", "data", "more", uid="mine")])
    async with controlled(local):
        await until(owner_of(local, "a-more", "mine"))
        found = await local.get("PersistentVolumeClaim", "default", "a-data")
        assert "ownerReferences" not in found["metadata"]
        # A pod of the same name gets a claim of its own: that of the former pod is deleted first.
        await local.delete("Pod", "default", "a")
        await local.apply(user("a", "more", uid="later"))
        await until(owner_of(local, "a-more", "later"))


async def test_ephemeral_volumes_of_workloads(local: LocalCluster) -> None:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": user("", "data")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "template": template}
    async with controlled(local):
        await local.make([storage_class("now")])
        await local.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
        await until(is_bound(local, "db-0-data"))
        await local.delete("StatefulSet", "default", "db")
        await until(owner_of(local, "db-0-data", ""))


async def test_an_object_of_another_form_stops_nothing(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([volume("bad", claimRef="data"), volume("odd", capacity=3), claim("no-size", resources=None)])
        await local.make([volume("good", "4Gi"), claim("data", size="3Gi")])
        await until(is_bound(local, "data", "good"))
