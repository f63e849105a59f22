"""What accounts may do with volumes and their claims: a part of the table of ``tests/security/test_admission.py``."""

from typing import Any

from support.admission_actions import NAMESPACE, RBAC, Action, annotated

SELECTED_NODE, BOUND_BY_CONTROLLER = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bound-by-controller"
CLAIMS, VOLUMES = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", "/api/v1/persistentvolumes"
WAITING, SELECTED, NAMED = f"{CLAIMS}/waiting", f"{CLAIMS}/selected", f"{CLAIMS}/named"
FREE, TAKEN, RESERVED = (f"{VOLUMES}/admission-{name}" for name in ("free", "taken", "reserved"))
POLICY = "deviceshare-binder-volumes"
AMOUNT = {"storage": "1Gi"}


def claim(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"mine": "x", **annotations}},
        "spec": {"storageClassName": "c", "accessModes": ["ReadWriteOnce"], "resources": {"requests": AMOUNT}},
    }


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
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"admission-{name}", "annotations": {"mine": "x"}},
        "spec": spec,
    }


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
DENIED = [
    Action("binder", "change another annotation of a claim", POLICY, "PATCH", WAITING, annotated("mine", "y")),
    Action("binder", "remove another annotation of a claim", POLICY, "PATCH", WAITING, annotated("mine", None)),
    Action("binder", "select another node for a claim", POLICY, "PATCH", SELECTED, annotated(SELECTED_NODE, "n2")),
    Action("binder", "remove the node of a claim", POLICY, "PATCH", SELECTED, annotated(SELECTED_NODE, None)),
    Action("binder", "change a label of a claim", POLICY, "PATCH", WAITING, {"metadata": {"labels": {"a": "b"}}}),
    Action("binder", "bind a claim by its spec", POLICY, "PATCH", WAITING, {"spec": {"volumeName": "v"}}),
    Action("binder", "add a finalizer to a claim", POLICY, "PATCH", WAITING, {"metadata": {"finalizers": ["a.io/b"]}}),
    Action("binder", "change the status of a claim", RBAC, "PATCH", f"{WAITING}/status", {"status": {"phase": "Lost"}}),
    Action("binder", "delete a claim", RBAC, "DELETE", WAITING),
    Action("binder", "create a claim", RBAC, "POST", CLAIMS, claim("new")),
    Action("binder", "list claims", RBAC, "GET", CLAIMS),
    Action("binder", "take a volume of another claim", POLICY, "PATCH", TAKEN, reserve()),
    Action("binder", "take a volume that is reserved", POLICY, "PATCH", RESERVED, reserve("other")),
    Action("binder", "free a volume", POLICY, "PATCH", TAKEN, {"spec": {"claimRef": None}}),
    Action("binder", "reserve a volume for any claim of a name", POLICY, "PATCH", FREE, reserve(uid="")),
    Action("binder", "change the size of a volume", POLICY, "PATCH", FREE, {"spec": {"capacity": {"storage": "2Gi"}}}),
    Action(
        "binder",
        "change a volume while it is reserved",
        POLICY,
        "PATCH",
        FREE,
        {"spec": {"persistentVolumeReclaimPolicy": "Delete", **reserve()["spec"]}},
    ),
    Action("binder", "change another annotation of a volume", POLICY, "PATCH", FREE, annotated("mine", "y")),
    *(
        Action("binder", f"mark a {name} volume", POLICY, "PATCH", path, annotated(BOUND_BY_CONTROLLER, "yes"))
        for name, path in (("free", FREE), ("taken", TAKEN), ("reserved", RESERVED))
    ),
    Action(
        "binder",
        "mark a volume that names the claim while it is reserved",
        POLICY,
        "PATCH",
        RESERVED,
        {**annotated(BOUND_BY_CONTROLLER, "yes"), **reserve()},
    ),
    Action(
        "binder",
        "mark a volume in another way",
        POLICY,
        "PATCH",
        FREE,
        {**annotated(BOUND_BY_CONTROLLER, "no"), **reserve()},
    ),
    Action(
        "binder", "select the node of a claim with a volume", POLICY, "PATCH", NAMED, annotated(SELECTED_NODE, "n1")
    ),
    Action("binder", "select a node for a volume", POLICY, "PATCH", FREE, annotated(SELECTED_NODE, "n1")),
    Action("binder", "change a label of a volume", POLICY, "PATCH", FREE, {"metadata": {"labels": {"a": "b"}}}),
    Action("binder", "delete a volume", RBAC, "DELETE", FREE),
    Action("binder", "create a volume", RBAC, "POST", VOLUMES, volume("new")),
    Action("inventory", "select the node of a claim", RBAC, "PATCH", WAITING, annotated(SELECTED_NODE, "n1")),
    Action("inventory", "reserve a volume", RBAC, "PATCH", FREE, reserve()),
]
ALLOWED = [
    Action("binder", "select the node of a claim", "", "PATCH", WAITING, annotated(SELECTED_NODE, "n1")),
    Action(
        "binder",
        "reserve a volume",
        "",
        "PATCH",
        FREE,
        {**annotated(BOUND_BY_CONTROLLER, "yes"), **reserve()},
    ),
    Action("binder", "reserve a volume that names the claim", "", "PATCH", RESERVED, reserve()),
    Action("tenant", "change a claim", "", "PATCH", WAITING, annotated("mine", "y")),
]
