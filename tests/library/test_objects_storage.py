"""Decoding of claims, volumes, classes and CSINodes, and of the volumes of pods."""

import json

from deviceshare.model import Disk, PodVolume, Requirement, VolumeUse
from deviceshare.objects import (
    decode_pod,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
    decode_volume_limits,
)


def raw(obj) -> bytes:
    return json.dumps(obj).encode()


def test_a_claim() -> None:
    found = decode_volume_claim(
        raw(
            {
                "metadata": {
                    "namespace": "ml", "name": "data", "uid": "u1", "resourceVersion": "7",
                    "annotations": {
                        "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1",
                        "volume.beta.kubernetes.io/storage-class": "old",
                    },
                    "ownerReferences": [{"uid": "other"}, {"uid": "pod-1", "controller": True}],
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                },
                "spec": {
                    "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast", "volumeName": "pv-1",
                    "resources": {"requests": {"storage": "1.5Gi"}}, "volumeMode": "Block",
                    "selector": {"matchLabels": {"speed": "high"}},
                },
                "status": {"phase": "Lost"},
            }
        )
    )  # fmt: skip
    assert (found.key, found.uid, found.owner, found.revision) == ("ml/data", "u1", "pod-1", "7")
    assert (found.storage_class, found.volume, found.selected_node) == ("old", "pv-1", "n1")
    assert found.bound
    assert found.lost
    assert found.terminating
    assert found.block
    assert found.once_per_pod
    assert found.requested == 3 * 2**29
    assert found.selector == (Requirement("speed", "In", ("high",)),)
    assert not found.problems


def test_a_claim_with_a_volume_is_not_bound_before_the_binding_is_complete() -> None:
    found = decode_volume_claim(raw({"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1"}}))
    assert (found.key, found.volume, found.bound, found.requested) == ("default/data", "pv-1", False, 0)


def test_an_invalid_amount_is_a_problem_and_a_huge_one_is_limited() -> None:
    spec = {"resources": {"requests": {"storage": "much"}}}
    (problem,) = decode_volume_claim(raw({"metadata": {"name": "data"}, "spec": spec})).problems
    assert (problem.field, problem.value) == ("spec.resources.requests[storage]", "much")
    huge = decode_volume(raw({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "100Pi"}}}))
    assert (huge.capacity, huge.problems) == (2**53, ())


def test_a_volume() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    found = decode_volume(
        raw(
            {
                "metadata": {"name": "pv-1", "labels": {"b": "2", "a": "1"}},
                "spec": {
                    "accessModes": ["ReadWriteMany", "ReadOnlyMany"], "storageClassName": "fast",
                    "capacity": {"storage": "10Gi"}, "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
                    "claimRef": {"namespace": "ml", "name": "data", "uid": "u1"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term, {}]}},
                },
                "status": {"phase": "Available"},
            }
        )
    )  # fmt: skip
    assert (found.name, found.labels, found.storage_class) == ("pv-1", (("a", "1"), ("b", "2")), "fast")
    assert (found.claim, found.claim_uid, found.capacity) == ("ml/data", "u1", 10 * 2**30)
    assert (found.driver, found.handle) == ("csi.example.com", "h")
    assert found.node_terms == ((Requirement("zone", "In", ("a",)),),)
    assert found.available
    assert decode_volume(raw({"metadata": {"name": "pv"}})).node_terms is None


def test_a_class_and_the_limits_of_a_node() -> None:
    found = decode_storage_class(
        raw(
            {
                "metadata": {"name": "zonal"}, "provisioner": "csi.example.com",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
            }
        )
    )  # fmt: skip
    assert (found.name, found.provisioner, found.waits) == ("zonal", "csi.example.com", True)
    assert found.topologies == ((Requirement("zone", "In", ("a", "b")),),)
    drivers = [{"name": "b"}, {"name": "c", "allocatable": {}}, {"name": "a", "allocatable": {"count": 0}}]
    limits = decode_volume_limits(raw({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}))
    assert (limits.name, limits.drivers) == ("n1", (("a", 0),))


def pod(*volumes):
    metadata = {"name": "p", "namespace": "ml", "uid": "u1"}
    spec = {"containers": [{"name": "c"}], "volumes": list(volumes)}
    return decode_pod(raw({"metadata": metadata, "spec": spec}))


def test_the_volumes_of_a_pod() -> None:
    fact = pod(
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "config", "configMap": {"name": "c"}},
    )
    assert fact.ask.volumes == (PodVolume("data", "shared"), PodVolume("scratch"))
    assert fact.volume_uses == (VolumeUse("ml/shared"), VolumeUse("ml/p-scratch", "ml/p", "u1"))
    assert fact.tenant.volumes == fact.volume_uses
    # Readers of earlier versions refuse the pod; this one evaluates the volumes.
    assert fact.ask.unsupported == ("spec.volumes[data]", "spec.volumes[scratch]")
    assert fact.ask.unevaluated == ()


def test_a_volume_without_the_name_of_its_claim_stays_a_reason_to_refuse_the_pod() -> None:
    assert pod({"name": "data", "persistentVolumeClaim": {}}).ask.unevaluated == ("spec.volumes[data]",)


def test_disks_of_pods() -> None:
    fact = pod(
        {"name": "a", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
        {"name": "c", "iscsi": {"iqn": "q"}},
        {"name": "d", "rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p"}},
        {"name": "e", "rbd": {"monitors": ["m1"], "image": "i"}},
    )
    assert fact.ask.disks == (
        Disk(("gce d",), read_only=True), Disk(("ebs v",)), Disk(("iscsi q",)), Disk(("rbd m1 p i", "rbd m2 p i")),
        Disk(("rbd m1 rbd i",)),
    )  # fmt: skip
    assert fact.tenant.disks == fact.ask.disks
