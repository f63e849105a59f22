"""Admission, as by the API server: objects are checked and defaults are filled in before they are stored.

A pure function of the object and the cluster's PriorityClasses. Invalid input raises a RequestError that names object,
field, value and expected value; valid input that is probably unintended becomes a warning, as in ``kubectl``.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from deviceshare.model import DEFAULT_QUEUE, FieldWarning
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.checks import ManifestField, manifest_root
from deviceshare_localcluster.device_admission import admit_claim, admit_claim_template
from deviceshare_localcluster.job_admission import admit_job
from deviceshare_localcluster.kinds import DEFAULT_NAMESPACE, KINDS, VOLCANO_JOB, Key, ResourceKind, known_kind
from deviceshare_localcluster.known_fields import warn_of_fields
from deviceshare_localcluster.names import generated_name
from deviceshare_localcluster.pod_admission import admit_amounts, admit_pod
from deviceshare_localcluster.workloads import WORKLOADS, admit_workload, pod_template_paths

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with its name that the API server gives each namespace."""
_HIGHEST_USER_PRIORITY = 1_000_000_000
_NEVER = "Never"
_PERCENT = re.compile(r"[0-9]{1,3}%")


class Priorities(NamedTuple):
    """The cluster's PriorityClasses: values by name, and the value of pods that name none.

    ``never``: the names of those for whose pods no others are evicted, '' for pods that name none.
    """

    values: Mapping[str, int] = SYSTEM_PRIORITIES
    otherwise: int = 0
    never: frozenset[str] = frozenset()


def priorities_of(classes: Iterable[Object]) -> Priorities:
    """Return the priorities of PriorityClasses; of several default ones the highest counts."""
    known = {one["metadata"]["name"]: one for one in classes if isinstance(one.get("value"), int)}
    values = {name: one["value"] for name, one in known.items()}
    default = max((name for name, one in known.items() if one.get("globalDefault")), key=values.__getitem__, default="")
    never = {name for name, one in known.items() if one.get("preemptionPolicy") == _NEVER}
    if default in never:
        never.add("")
    return Priorities(SYSTEM_PRIORITIES | values, values.get(default, 0), frozenset(never))


class Admitted(NamedTuple):
    """The object to store, and the warnings about it."""

    object: Object
    warnings: list[FieldWarning]


def admit(given: Object, *, uid: str, now: str, priorities: Priorities) -> Admitted:
    """Check a new object and fill in its defaults; ``given`` itself does not change. Raises RequestError.

    ``uid`` and ``now`` (RFC 3339) are for objects without them; an object from another cluster keeps its own.
    """
    key = identify(given)
    given_root = manifest_root(str(key), given)
    root = given_root.holding(_copy(given_root))
    warn_of_fields(key.kind, root)
    metadata = root.value["metadata"]
    metadata["name"] = key.name
    if key.namespace:
        metadata["namespace"] = key.namespace
    root["metadata"].check_metadata()
    _admit_owners(root["metadata"]["ownerReferences"])
    _admit_status(root["status"])
    for field in ("labels", "annotations", "ownerReferences"):
        if metadata.get(field, metadata) is None:
            del metadata[field]
    # The uid becomes part of subjects.
    metadata["uid"] = root["metadata"]["uid"].otherwise(uid).name()
    metadata.setdefault("creationTimestamp", now)
    metadata.pop("resourceVersion", None)
    if key.kind in _BY_KIND:
        _BY_KIND[key.kind](root)
    elif key.kind in WORKLOADS:
        admit_workload(key.kind, root)
    if key.kind == "Pod":
        _set_priority(root["spec"], priorities)
    return Admitted(root.value, root.source.warnings)


def _admit_owners(owners: ManifestField) -> None:
    for owner in owners.items():
        values = owner.mapping()
        for field in ("kind", "name", "uid"):
            owner[field].text()
        owner["apiVersion"].optional_text()
        if not isinstance(owner["controller"].value, bool | None):
            raise owner["controller"].error("true or false")
        for field in ("apiVersion", "controller"):
            if values.get(field, values) is None:
                del values[field]


def _admit_status(status: ManifestField) -> None:
    """Check what controllers read of the status of each kind: that of a manifest is stored, too."""
    status.optional_mapping()
    status["phase"].optional_text()
    for condition in status["conditions"].items():
        condition.mapping()


def identify(obj: Object) -> Key:
    """Return the key of an object, with the name that the API server would generate if it has a ``generateName``.

    Raises RequestError if it has no known kind or no name.
    """
    root = manifest_root("", obj)
    kind_field, metadata = root["kind"], root["metadata"]
    name_field = metadata["name"]
    root.source.subject = kind_field.shown() + (f" {name_field.shown()}" if name_field.value else "")
    kind = _known_kind(root)
    metadata.mapping("a mapping with a name")
    name, namespace = _name(root), ""
    if kind.namespaced:
        namespace = metadata["namespace"].otherwise(DEFAULT_NAMESPACE).label()
    return Key(kind.name, namespace, name)


def _known_kind(root: ManifestField) -> ResourceKind:
    kind_field, version_field = root["kind"], root["apiVersion"]
    kind = known_kind(version_field.value, kind_field.value)
    if kind is not None:
        return kind
    versions = [each.api_version for each in KINDS.values() if each.kind == kind_field.value]
    if versions:
        raise version_field.error(f"{' or '.join(versions)}, the {kind_field.value} that is known here")
    known = ", ".join(dict.fromkeys(each.kind for each in KINDS.values()))
    expected = f"a kind that is known here: {known}"
    if paths := [".".join(map(str, path)) for path in pod_template_paths(root.value)]:
        shown = ", ".join(paths[:3])
        expected += f"; nothing here makes pods of a {kind_field.shown()} from its pod templates ({shown})"
    raise kind_field.error(expected)


def _name(root: ManifestField) -> str:
    """Return the name of an object, generated from ``generateName`` if it has none."""
    name, prefix = root["metadata"]["name"], root["metadata"]["generateName"]
    if name.value is None and isinstance(prefix.value, str) and prefix.value:
        return prefix.holding(generated_name(prefix.value, repr(root.value))).name()
    return name.name()


def _copy(given: ManifestField) -> Object:
    """Return a deep copy, as JSON values."""
    try:
        text = msgspec.json.encode(given.value)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        _check_json(given)
        expected = "texts, numbers, lists and mappings with texts as keys"
        raise given["object"].holding(str(error)).error(expected) from error
    if b"null" in text:  # what an infinite number or NaN becomes
        _check_json(given)
    copy: Object = msgspec.json.decode(text)
    return copy


def _check_json(field: ManifestField) -> None:
    """Raise the error of a key that is no text, or of a number that JSON does not have."""
    value = field.value
    if isinstance(value, dict):
        for key in value:
            # Numbers as keys become texts, as in kubectl.
            if isinstance(key, bool | tuple | None):
                expected = (
                    "a string as the key: write it in quotes, since YAML reads words such as no and on as booleans"
                )
                raise field.holding(_as_yaml(key)).error(expected)
            _check_json(field[key] if isinstance(key, str) else field.entry(key))
    elif isinstance(value, list):
        for item in field.items():
            _check_json(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise field.holding(_as_yaml(value)).error("a finite number")


def _as_yaml(value: object) -> str:
    """Return a key or a number as it stands in YAML."""
    if isinstance(value, float):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _set_priority(spec: ManifestField, priorities: Priorities) -> None:
    """Fill in the pod's priority, as Kubernetes' admission plugin Priority."""
    name = spec["priorityClassName"].value
    priority = priorities.values.get(name) if name else priorities.otherwise
    if priority is None:
        known = ", ".join(sorted(priorities.values))
        raise spec["priorityClassName"].error(f"the name of a PriorityClass; there are: {known}")
    if spec["priority"].value not in (None, priority):
        raise spec["priority"].error(f"nothing: it comes from the PriorityClass, which gives {priority}")
    spec.value["priority"] = priority
    if (name or "") in priorities.never:
        spec.value.setdefault("preemptionPolicy", _NEVER)


def _admit_node(node: ManifestField) -> None:
    status = node.ensured("status")
    values = status.value
    for field in ("capacity", "allocatable"):
        admit_amounts(status[field])
    if values.get("capacity") and not values.get("allocatable"):
        values["allocatable"] = dict(values["capacity"])
    conditions = [condition.mapping() for condition in status["conditions"].items()]
    if not any(condition.get("type") == "Ready" for condition in conditions):
        # There is no kubelet to report it.
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "LocalCluster",
            "message": "no kubelet: ready by default",
        }
        values["conditions"] = [*conditions, ready]
    node["spec"].optional_mapping()
    for taint in node["spec"]["taints"].items():
        taint.mapping()


def _admit_pod_group(group: ManifestField) -> None:
    spec = group.ensured("spec")
    spec.value.setdefault("minMember", 1)
    spec["minMember"].whole()
    for task in spec["minTaskMember"].optional_mapping():
        spec["minTaskMember"][task].whole()
    if not spec["queue"].optional_text():
        spec.value["queue"] = DEFAULT_QUEUE
    spec["queue"].name()
    _set_status(group, "phase", "Pending")


def _admit_queue(queue: ManifestField) -> None:
    spec = queue.ensured("spec")
    weight = spec["weight"].otherwise(1).whole(1)
    if weight > 65535:
        raise spec["weight"].error("a whole number from 1 to 65535")
    spec.value["weight"] = weight
    spec.value.setdefault("reclaimable", True)
    for field in ("capability", "deserved"):
        admit_amounts(spec[field])
    _set_status(queue, "state", "Open")


def _set_status(obj: ManifestField, field: str, default: str) -> None:
    obj.ensured("status").value.setdefault(field, default)


def _admit_priority_class(priority: ManifestField) -> None:
    value = priority["value"].value
    if isinstance(value, bool) or not isinstance(value, int) or value > _HIGHEST_USER_PRIORITY:
        raise priority["value"].error(f"a whole number of at most {_HIGHEST_USER_PRIORITY}")


def _admit_namespace(namespace: ManifestField) -> None:
    metadata = namespace["metadata"].value
    metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


def _admit_budget(budget: ManifestField) -> None:
    spec = budget.ensured("spec")
    both = [spec[field] for field in ("minAvailable", "maxUnavailable") if spec[field].value is not None]
    if len(both) > 1:
        raise both[1].error("nothing: minAvailable and maxUnavailable cannot be both set")
    for field in both:
        value = field.value
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not is_number and not (isinstance(value, str) and _PERCENT.fullmatch(value)):
            raise field.error("a number of pods, 0 or more, or a percentage such as 50%")
    selector = spec["selector"]
    selector.optional_mapping()
    selector["matchLabels"].check_labels()
    for requirement in selector["matchExpressions"].items():
        requirement.mapping()
    # Its controller has to see a change before evictions are allowed by it.
    budget["metadata"].value.setdefault("generation", 1)


def _admit_config_map(config: ManifestField) -> None:
    config["data"].texts()


_BY_KIND = {
    "Pod": admit_pod,
    VOLCANO_JOB: admit_job,
    "Node": _admit_node,
    "PodGroup": _admit_pod_group,
    "Queue": _admit_queue,
    "PriorityClass": _admit_priority_class,
    "ConfigMap": _admit_config_map,
    "PodDisruptionBudget": _admit_budget,
    "Namespace": _admit_namespace,
    "ResourceClaim": admit_claim,
    "ResourceClaimTemplate": admit_claim_template,
}
