"""Volumes and their claims as tables."""

from deviceshare_cli.volume_tables import claims_table, classes_table, volumes_table

CREATED = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 120
"""Two minutes after it."""


def test_a_claim_has_the_size_of_its_volume_once_it_is_bound():
    metadata = {"namespace": "ai", "name": "data", "creationTimestamp": CREATED}
    size = {"storage": "10Gi"}
    waiting = {"metadata": metadata, "spec": {"storageClassName": "fast", "resources": {"requests": size}}}
    bound = {
        "metadata": metadata,
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound", "capacity": size, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
    }
    head, rows = claims_table([waiting, bound], NOW)
    assert head == ["NAMESPACE", "NAME", "STATUS", "VOLUME", "CAPACITY", "ACCESS MODES", "STORAGECLASS", "AGE"]
    assert rows == [
        ["ai", "data", "Pending", "", "", "", "fast", "2m"],
        ["ai", "data", "Bound", "pv-1", "10Gi", "RWO,ROX", "", "2m"],
    ]


def test_a_volume_names_its_claim():
    spec = {
        "capacity": {"storage": "1Ti"},
        "accessModes": ["ReadWriteOncePod"],
        "claimRef": {"namespace": "ai", "name": "data"},
        "storageClassName": "fast",
        "persistentVolumeReclaimPolicy": "Delete",
    }
    volume = {"metadata": {"name": "pv-1"}, "spec": spec, "status": {"phase": "Failed", "reason": "gone"}}
    assert volumes_table([volume, {"metadata": {"name": "pv-2"}}], NOW)[1] == [
        ["pv-1", "1Ti", "RWOP", "Delete", "Failed", "ai/data", "fast", "gone", "<unknown>"],
        ["pv-2", "", "", "Retain", "<none>", "", "", "", "<unknown>"],
    ]


def test_the_default_class_is_marked():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [
        {"metadata": {"name": "a", "annotations": annotations}, "provisioner": "x", "allowVolumeExpansion": True},
        {"metadata": {"name": "b"}, "provisioner": "y", "volumeBindingMode": "WaitForFirstConsumer"},
    ]
    assert [row[:5] for row in classes_table(classes, NOW)[1]] == [
        ["a (default)", "x", "Delete", "Immediate", "true"],
        ["b", "y", "Delete", "WaitForFirstConsumer", "false"],
    ]
