"""What accounts may do with volumes and their claims: a part of the table of ``tests/security/test_admission.py``."""

from typing import Any

from support.admission_actions import NAMESPACE, RBAC, Action, actions, annotated
from support.manifest import manifest

SELECTED_NODE, BOUND_BY_CONTROLLER = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bound-by-controller"
CLAIMS, VOLUMES = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", "/api/v1/persistentvolumes"
WAITING, SELECTED, NAMED = f"{CLAIMS}/waiting", f"{CLAIMS}/selected", f"{CLAIMS}/named"
FREE, TAKEN, RESERVED = (f"{VOLUMES}/admission-{name}" for name in ("free", "taken", "reserved"))
POLICY = "deviceshare-binder-volumes"
AMOUNT = {"storage": "1Gi"}


def claim(name: str, **annotations: str) -> dict[str, Any]:
    return manifest(
        "PersistentVolumeClaim",
        {"name": name, "namespace": NAMESPACE, "annotations": {"mine": "x", **annotations}},
        spec={"storageClassName": "c", "accessModes": ["ReadWriteOnce"], "resources": {"requests": AMOUNT}},
    )


def naming(found: dict[str, Any], name: str) -> dict[str, Any]:
    return found | {"spec": {**found["spec"], "volumeName": name}}


def reference(name: str = "waiting", **more: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name, **more}


def volume(name: str, claimed: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {
        "storageClassName": "c",
        "accessModes": ["ReadWriteOnce"],
        "capacity": AMOUNT,
        "csi": {"driver": "d.example.com", "volumeHandle": name},
    }
    if claimed is not None:
        spec["claimRef"] = claimed
    return manifest("PersistentVolume", {"name": f"admission-{name}", "annotations": {"mine": "x"}}, spec=spec)


def reserve(name: str = "waiting", **more: Any) -> dict[str, Any]:
    return {"spec": {"claimRef": reference(name, **{"uid": "u", **more})}}


OBJECTS = [
    (CLAIMS, claim("waiting")),
    (CLAIMS, claim("selected", **{SELECTED_NODE: "n1"})),
    (CLAIMS, naming(claim("named"), "v")),
    (VOLUMES, volume("free")),
    (VOLUMES, volume("taken", reference("other", uid="v"))),
    (VOLUMES, volume("reserved", reference())),
]
"""What the actions act on: collections and objects."""
MARKED = annotated(BOUND_BY_CONTROLLER, "yes")
LABELLED = {"metadata": {"labels": {"a": "b"}}}
DENIED = [
    *actions("binder", POLICY, "PATCH", WAITING, {
        "change another annotation of a claim": annotated("mine", "y"),
        "remove another annotation of a claim": annotated("mine", None),
        "change a label of a claim": LABELLED,
        "bind a claim by its spec": {"spec": {"volumeName": "v"}},
        "add a finalizer to a claim": {"metadata": {"finalizers": ["a.io/b"]}},
    }),
    *actions("binder", POLICY, "PATCH", SELECTED, {
        "select another node for a claim": annotated(SELECTED_NODE, "n2"),
        "remove the node of a claim": annotated(SELECTED_NODE, None),
    }),
    Action("binder", "select the node of a claim with a volume", POLICY, "PATCH", NAMED,
           annotated(SELECTED_NODE, "n1")),
    Action("binder", "change the status of a claim", RBAC, "PATCH", f"{WAITING}/status", {"status": {"phase": "Lost"}}),
    Action("binder", "delete a claim", RBAC, "DELETE", WAITING),
    Action("binder", "create a claim", RBAC, "POST", CLAIMS, claim("new")),
    Action("binder", "list claims", RBAC, "GET", CLAIMS),
    *actions("binder", POLICY, "PATCH", TAKEN, {
        "take a volume of another claim": reserve(),
        "free a volume": {"spec": {"claimRef": None}},
        "mark a taken volume": MARKED,
    }),
    *actions("binder", POLICY, "PATCH", RESERVED, {
        "take a volume that is reserved": reserve("other"),
        "mark a reserved volume": MARKED,
        "mark a volume that names the claim while it is reserved": {**MARKED, **reserve()},
    }),
    *actions("binder", POLICY, "PATCH", FREE, {
        "reserve a volume for any claim of a name": reserve(uid=""),
        "change the size of a volume": {"spec": {"capacity": {"storage": "2Gi"}}},
        "change a volume while it is reserved": {
            "spec": {"persistentVolumeReclaimPolicy": "Delete", **reserve()["spec"]},
        },
        "change another annotation of a volume": annotated("mine", "y"),
        "mark a free volume": MARKED,
        "mark a volume in another way": {**annotated(BOUND_BY_CONTROLLER, "no"), **reserve()},
        "select a node for a volume": annotated(SELECTED_NODE, "n1"),
        "change a label of a volume": LABELLED,
    }),
    Action("binder", "delete a volume", RBAC, "DELETE", FREE),
    Action("binder", "create a volume", RBAC, "POST", VOLUMES, volume("new")),
    Action("inventory", "select the node of a claim", RBAC, "PATCH", WAITING, annotated(SELECTED_NODE, "n1")),
    Action("inventory", "reserve a volume", RBAC, "PATCH", FREE, reserve()),
]  # fmt: skip
ALLOWED = [
    Action("binder", "select the node of a claim", "", "PATCH", WAITING, annotated(SELECTED_NODE, "n1")),
    Action("binder", "reserve a volume", "", "PATCH", FREE, {**MARKED, **reserve()}),
    Action("binder", "reserve a volume that names the claim", "", "PATCH", RESERVED, reserve()),
    Action("tenant", "change a claim", "", "PATCH", WAITING, annotated("mine", "y")),
]
