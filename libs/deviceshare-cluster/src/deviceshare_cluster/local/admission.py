"""What the API server does with an object before it stores it: check it, and fill in what was left out.

A pure function of the object and of what the cluster knows beside it. Bad input raises a RequestError that names
object, field, value and what would be right; what is accepted but not meant that way becomes a warning, as ``kubectl``
shows them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from deviceshare_cluster.interface import Object
from deviceshare_cluster.local.checks import At, shown
from deviceshare_cluster.local.job_admission import admit_job
from deviceshare_cluster.local.kinds import KINDS, Key
from deviceshare_cluster.local.pod_admission import admit_amounts, admit_pod

DEFAULT_NAMESPACE = "default"
DEFAULT_QUEUE = "default"
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_HIGHEST_USER_PRIORITY = 1_000_000_000


class Priorities(NamedTuple):
    """The cluster's PriorityClasses: values by name, and the value of pods that name none."""

    values: Mapping[str, int] = SYSTEM_PRIORITIES
    otherwise: int = 0


class Admitted(NamedTuple):
    """An object as it is to be stored, and what to warn of."""

    object: Object
    warnings: list[str]


def admit(given: Object, *, uid: str, now: str, priorities: Priorities) -> Admitted:
    """Check a new object and fill in its defaults; ``given`` itself stays as it is. Raises RequestError.

    ``uid`` and ``now`` (RFC 3339) are for an object that has none yet; one from another cluster keeps its own.
    """
    key = identify(given)
    obj: Object = _copy(given, At(str(key)))
    at = At(str(key))
    metadata = obj["metadata"]
    if key.namespace:
        metadata["namespace"] = key.namespace
    at["metadata"]["labels"].labels(metadata.get("labels"))
    annotations = at["metadata"]["annotations"].texts(metadata.get("annotations"))
    at["metadata"]["annotations"].keys(annotations)
    for field in ("labels", "annotations"):
        if metadata.get(field, metadata) is None:
            del metadata[field]
    # It becomes a part of subjects.
    metadata["uid"] = at["metadata"]["uid"].name(metadata.get("uid") or uid)
    metadata.setdefault("creationTimestamp", now)
    metadata.pop("resourceVersion", None)
    warnings: list[str] = []
    if key.kind == "Pod":
        admit_pod(obj, at, warnings)
        _prioritise(obj["spec"], at["spec"], priorities)
    elif key.kind == "Job":
        admit_job(obj, at, warnings)
    elif key.kind in _OTHERS:
        _OTHERS[key.kind](obj, at)
    return Admitted(obj, warnings)


def identify(obj: Object) -> Key:
    """Return which object this is. Raises RequestError where it has no kind that the cluster knows, or no name."""
    name_given = obj.get("kind")
    metadata = obj.get("metadata")
    called = metadata.get("name") if isinstance(metadata, dict) else None
    at = At(f"{shown(name_given)} {shown(called)}" if called else shown(name_given))
    kind = KINDS.get(name_given) if isinstance(name_given, str) else None
    if kind is None:
        raise at["kind"].error(name_given, f"a kind that is known here: {', '.join(KINDS)}")
    if obj.get("apiVersion") != kind.api_version:
        raise at["apiVersion"].error(obj.get("apiVersion"), f"{kind.api_version}, the {kind.name} that is known here")
    if not isinstance(metadata, dict):
        raise at["metadata"].error(metadata, "a mapping with a name")
    name = at["metadata"]["name"].name(called)
    namespace = ""
    if kind.namespaced:
        namespace = at["metadata"]["namespace"].label(metadata.get("namespace") or DEFAULT_NAMESPACE)
    return Key(kind.name, namespace, name)


def _copy(given: Object, at: At) -> Object:
    """Return a copy of which nothing is shared, made of what JSON can hold."""
    try:
        copy: Object = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise at["object"].error(str(error), "texts, numbers, lists and mappings with texts as keys") from error
    return copy


def _prioritise(spec: dict[str, Any], at: At, priorities: Priorities) -> None:
    """Fill in the pod's priority, as Kubernetes' admission of that name does."""
    name = spec.get("priorityClassName")
    priority = priorities.values.get(name) if name else priorities.otherwise
    if priority is None:
        known = ", ".join(sorted(priorities.values))
        raise at["priorityClassName"].error(name, f"the name of a PriorityClass; there are: {known}")
    given = spec.get("priority")
    if given is not None and given != priority:
        raise at["priority"].error(given, f"nothing: it comes from the PriorityClass, which gives {priority}")
    spec["priority"] = priority


def _admit_node(node: Object, at: At) -> None:
    status = at["status"].mapping(node.get("status"))
    node["status"] = status
    at = at["status"]
    for field in ("capacity", "allocatable"):
        admit_amounts(at[field].mapping(status.get(field)), at[field])
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    conditions = at["conditions"].items(status.get("conditions"))
    for index, condition in enumerate(conditions):
        at["conditions"][index].entry(condition)
    if not any(condition.get("type") == "Ready" for condition in conditions):
        # There is no kubelet to report it.
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "LocalCluster",
            "message": "no kubelet: ready unless told",
        }
        status["conditions"] = [*conditions, ready]
    spec = at["spec"].mapping(node.get("spec"))
    for index, taint in enumerate(at["spec"]["taints"].items(spec.get("taints"))):
        at["spec"]["taints"][index].entry(taint)


def _admit_pod_group(group: Object, at: At) -> None:
    spec = at["spec"].mapping(group.get("spec"))
    group["spec"] = spec
    spec.setdefault("minMember", 1)
    at["spec"]["minMember"].whole(spec["minMember"])
    for task, count in at["spec"]["minTaskMember"].mapping(spec.get("minTaskMember")).items():
        at["spec"]["minTaskMember"][task].whole(count)
    if not at["spec"]["queue"].optional_text(spec.get("queue")):
        spec["queue"] = DEFAULT_QUEUE
    at["spec"]["queue"].name(spec["queue"])
    at["status"].mapping(group.setdefault("status", {})).setdefault("phase", "Pending")


def _admit_queue(queue: Object, at: At) -> None:
    spec = at["spec"].mapping(queue.get("spec"))
    queue["spec"] = spec
    weight = at["spec"]["weight"].whole(spec.get("weight") or 1, 1)
    if weight > 65535:
        raise at["spec"]["weight"].error(weight, "a whole number from 1 to 65535")
    spec["weight"] = weight
    spec.setdefault("reclaimable", True)
    for field in ("capability", "deserved"):
        admit_amounts(at["spec"][field].mapping(spec.get(field)), at["spec"][field])
    at["status"].mapping(queue.setdefault("status", {})).setdefault("state", "Open")


def _admit_priority_class(priority: Object, at: At) -> None:
    value = priority.get("value")
    if isinstance(value, bool) or not isinstance(value, int) or value > _HIGHEST_USER_PRIORITY:
        raise at["value"].error(value, f"a whole number of at most {_HIGHEST_USER_PRIORITY}")


def _admit_config_map(config: Object, at: At) -> None:
    at["data"].texts(config.get("data"))


_OTHERS = {
    "Node": _admit_node,
    "PodGroup": _admit_pod_group,
    "Queue": _admit_queue,
    "PriorityClass": _admit_priority_class,
    "ConfigMap": _admit_config_map,
}
