"""Updates of existing objects by applied manifests.

Fields of other writers are kept: the status, the node of a bound pod, annotations and labels that no manifest named.
``metadata.managedFields`` lists those that a manifest named, as with ``kubectl apply --server-side``.
"""

from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.checks import ManifestField, manifest_root
from deviceshare_localcluster.kinds import VOLCANO_JOB, key_of, kind_of

_MANAGER = "deviceshare"
_OWNED_MAPS = ("annotations", "labels")
_MUTABLE_POD_FIELDS = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_STATUS_DEFAULTS = {
    "Pod": {"phase": "Pending"},
    "PodGroup": {"phase": "Pending"},
    "Queue": {"state": "Open"},
    "Job": {"state": {"phase": "Pending"}},
}
"""The status that admission fills in for manifests without one."""
_MUTABLE_JOB_FIELDS = ("minAvailable", "priorityClassName")
_MUTABLE_TASK_FIELDS = ("replicas", "minAvailable")


def note_applied(obj: Object) -> None:
    """Record in an admitted object, in place, the annotations and labels that its manifest names."""
    named: dict[str, Any] = {
        f"f:{field}": {f"f:{name}": {} for name in sorted(obj["metadata"][field])}
        for field in _OWNED_MAPS
        if obj["metadata"].get(field)
    }
    obj["metadata"].pop("managedFields", None)
    if named:
        entry = {"manager": _MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": named}}
        obj["metadata"]["managedFields"] = [entry]


def updated(live: Object, given: Object) -> Object:
    """Return ``live`` updated by the admitted manifest ``given``; equal to ``live`` if nothing changes.

    Raises RequestError if the manifest changes an immutable field.
    """
    root = manifest_root(str(key_of(given)), given)
    out = given | {"metadata": _metadata(live["metadata"], given["metadata"])}
    if given["kind"] == "Pod":
        out["spec"] = _pod_spec(live["spec"], root["spec"])
    elif kind_of(given) == VOLCANO_JOB:
        _check_job_spec(live["spec"], root["spec"])
    elif given["kind"] == "PriorityClass" and live.get("value") != given.get("value"):
        raise root["value"].error(f"{live.get('value')}: it cannot be changed")
    if given["kind"] == "PodDisruptionBudget":
        generation = live["metadata"].get("generation", 1)
        out["metadata"]["generation"] = generation + (live.get("spec") != given.get("spec"))
    if "status" in live or "status" in given:
        out["status"] = _status(given["kind"], live.get("status") or {}, given.get("status") or {})
    return out


def _status(kind: str, live: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge the status of a manifest, such as a pod's phase or a node's capacity, but not its defaults."""
    if live and given == _STATUS_DEFAULTS.get(kind):
        return live
    return live | given


def _metadata(live: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    before = (live.get("managedFields") or [{}])[0].get("fieldsV1", {}).get("f:metadata", {})
    out = {name: value for name, value in (live | given).items() if name not in (*_OWNED_MAPS, "managedFields")}
    # A manifest cannot change the object's identity.
    out |= {"uid": live["uid"], "creationTimestamp": live["creationTimestamp"]}
    for field in _OWNED_MAPS:
        wanted = given.get(field) or {}
        named_before = before.get(f"f:{field}", {})
        kept = {
            name: value
            for name, value in (live.get(field) or {}).items()
            if name in wanted or f"f:{name}" not in named_before
        }
        if kept | wanted:
            out[field] = kept | wanted
    if "managedFields" in given:
        out["managedFields"] = given["managedFields"]
    return out


def _pod_spec(live: dict[str, Any], spec: ManifestField) -> dict[str, Any]:
    """Return the pod's spec: only a few fields are mutable, and only a binding sets the node."""
    given: dict[str, Any] = spec.value
    if given.get("nodeName", live.get("nodeName")) != live.get("nodeName"):
        bound = f"{live['nodeName']}, where the pod is bound" if live.get("nodeName") else ""
        raise spec["nodeName"].error(bound or "nothing: a binding sets the node")
    for field in ("containers", "initContainers"):
        for old, new in zip(live.get(field) or (), spec[field].items(), strict=False):
            changed = new.holding({**new.value, "image": ""})
            _check_same({**old, "image": ""}, changed, "a pod's containers, but for their image")
        if len(live.get(field) or ()) != len(given.get(field) or ()):
            raise spec[field].error("the containers that the pod has: delete it first to change them")
    mutable = (*_MUTABLE_POD_FIELDS, "containers", "initContainers", "nodeName")
    _check_same(_without(live, mutable), spec.holding(_without(given, mutable)), "a pod's spec")
    if any(gate not in (live.get("schedulingGates") or ()) for gate in given.get("schedulingGates") or ()):
        raise spec["schedulingGates"].error("no new gates: gates can only be removed")
    return given | ({"nodeName": live["nodeName"]} if "nodeName" in live else {})


def _check_job_spec(live: dict[str, Any], spec: ManifestField) -> None:
    """Check that only replicas, minAvailable and the priority class of a Job change, as in Volcano."""
    tasks = spec["tasks"].items()
    if len(live["tasks"]) != len(tasks):
        raise spec["tasks"].error(f"the {len(live['tasks'])} tasks that the Job has: delete it first")
    for old, new in zip(live["tasks"], tasks, strict=True):
        changed = new.holding(_without(new.value, _MUTABLE_TASK_FIELDS))
        _check_same(_without(old, _MUTABLE_TASK_FIELDS), changed, "a Job's tasks, but for replicas")
    changed = spec.holding(_without(spec.value, (*_MUTABLE_JOB_FIELDS, "tasks")))
    _check_same(
        _without(live, (*_MUTABLE_JOB_FIELDS, "tasks")), changed, "a Job's spec, but for replicas and minAvailable"
    )


def _without(mapping: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in fields}


def _check_same(live: Any, given: ManifestField, what: str) -> None:
    """Raise RequestError for the first field where two values differ."""
    if live == given.value:
        return
    if isinstance(live, dict) and isinstance(given.value, dict):
        for name in sorted(live.keys() | given.value.keys()):
            _check_same(live.get(name), given[name], what)
    elif isinstance(live, list) and isinstance(given.value, list) and len(live) == len(given.value):
        for old, new in zip(live, given.items(), strict=True):
            _check_same(old, new, what)
    else:
        shown = "nothing" if live is None else str(live)
        raise given.error(f"{shown}: {what} cannot be changed; delete it first")
