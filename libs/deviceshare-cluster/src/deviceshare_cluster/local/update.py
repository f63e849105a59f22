"""What becomes of an object that exists when a manifest is applied to it.

The manifest says what the user wants; what others wrote stays: the status, where a pod is bound, annotations and labels
that no manifest ever named. Which ones a manifest named stands in ``metadata.managedFields``, as with
``kubectl apply --server-side``.
"""

from typing import Any

from deviceshare_cluster.interface import Object
from deviceshare_cluster.local.checks import At
from deviceshare_cluster.local.kinds import key_of

_MANAGER = "deviceshare"
_OWNED_MAPS = ("annotations", "labels")
_FREE_POD_FIELDS = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_STATUS_DEFAULTS = {"Pod": {"phase": "Pending"}, "PodGroup": {"phase": "Pending"}, "Queue": {"state": "Open"}}
"""What admission fills in where a manifest has no status."""
_FREE_JOB_FIELDS = ("minAvailable", "priorityClassName")
_FREE_TASK_FIELDS = ("replicas", "minAvailable")


def note_applied(obj: Object) -> None:
    """Write into an admitted object, in place, which annotations and labels its manifest names."""
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
    """Return ``live`` as the admitted manifest ``given`` wants it; equal to ``live`` where nothing changes.

    Raises RequestError where the manifest changes what cannot be changed.
    """
    at = At(str(key_of(given)))
    out = given | {"metadata": _metadata(live["metadata"], given["metadata"])}
    if given["kind"] == "Pod":
        out["spec"] = _pod_spec(live["spec"], given["spec"], at["spec"])
    elif given["kind"] == "Job":
        _check_job_spec(live["spec"], given["spec"], at["spec"])
    elif given["kind"] == "PriorityClass" and live.get("value") != given.get("value"):
        raise at["value"].error(given.get("value"), f"{live.get('value')}: it cannot be changed")
    if "status" in live or "status" in given:
        out["status"] = _status(given["kind"], live.get("status") or {}, given.get("status") or {})
    return out


def _status(kind: str, live: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge: a manifest may say that a pod has ended or what a node has, but its defaults say nothing."""
    if live and given == _STATUS_DEFAULTS.get(kind):
        return live
    return live | given


def _metadata(live: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    before = (live.get("managedFields") or [{}])[0].get("fieldsV1", {}).get("f:metadata", {})
    out = {name: value for name, value in (live | given).items() if name not in (*_OWNED_MAPS, "managedFields")}
    # The object's identity is not the manifest's to change.
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


def _pod_spec(live: dict[str, Any], given: dict[str, Any], at: At) -> dict[str, Any]:
    """Return the pod's spec; all of it but a few fields is fixed, and only a binding says where it runs."""
    if given.get("nodeName", live.get("nodeName")) != live.get("nodeName"):
        expected = (
            f"{live['nodeName']}, where the pod is bound" if live.get("nodeName") else "nothing: binding says where"
        )
        raise at["nodeName"].error(given.get("nodeName"), expected)
    for field in ("containers", "initContainers"):
        for index, (old, new) in enumerate(zip(live.get(field) or (), given.get(field) or (), strict=False)):
            _same(
                {**old, "image": ""}, {**new, "image": ""}, at[field][index], "a pod's containers, but for their image"
            )
        if len(live.get(field) or ()) != len(given.get(field) or ()):
            raise at[field].error(given.get(field), "the containers that the pod has: delete it first to change them")
    free = (*_FREE_POD_FIELDS, "containers", "initContainers", "nodeName")
    _same(_without(live, free), _without(given, free), at, "a pod's spec")
    if any(gate not in (live.get("schedulingGates") or ()) for gate in given.get("schedulingGates") or ()):
        raise at["schedulingGates"].error(given["schedulingGates"], "no new gates: they can only be taken away")
    return given | ({"nodeName": live["nodeName"]} if "nodeName" in live else {})


def _check_job_spec(live: dict[str, Any], given: dict[str, Any], at: At) -> None:
    """Volcano lets replicas, minAvailable and the priority class of a Job change, and nothing else."""
    if len(live["tasks"]) != len(given["tasks"]):
        raise at["tasks"].error(given["tasks"], f"the {len(live['tasks'])} tasks that the Job has: delete it first")
    for index, (old, new) in enumerate(zip(live["tasks"], given["tasks"], strict=True)):
        place = at["tasks"][index]
        _same(
            _without(old, _FREE_TASK_FIELDS), _without(new, _FREE_TASK_FIELDS), place, "a Job's tasks, but for replicas"
        )
    free = (*_FREE_JOB_FIELDS, "tasks")
    _same(_without(live, free), _without(given, free), at, "a Job's spec, but for replicas and minAvailable")


def _without(mapping: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in fields}


def _same(live: Any, given: Any, at: At, what: str) -> None:
    """Raise RequestError at the first place where two values differ."""
    if live == given:
        return
    if isinstance(live, dict) and isinstance(given, dict):
        for name in sorted(live.keys() | given.keys()):
            _same(live.get(name), given.get(name), at[name], what)
    elif isinstance(live, list) and isinstance(given, list) and len(live) == len(given):
        for index, (old, new) in enumerate(zip(live, given, strict=True)):
            _same(old, new, at[index], what)
    else:
        raise at.error(given, f"{_quoted(live)}: {what} cannot be changed; delete it first")


def _quoted(value: Any) -> str:
    return "nothing" if value is None else str(value)
