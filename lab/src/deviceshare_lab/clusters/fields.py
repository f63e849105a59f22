"""What objects say: the fields that the checker, the world and the workloads read."""

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


def annotations_of(obj: Object) -> dict[str, str]:
    """Return an object's annotations."""
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


def name_of(obj: Object) -> str:
    """Return ``namespace/name``, or the name of an object without a namespace."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def group_of(pod: Object) -> str:
    """Return ``namespace/name`` of a pod's PodGroup, '' if it is in none."""
    group = annotations_of(pod).get(GROUP)
    return f"{pod['metadata']['namespace']}/{group}" if group else ""


def queue_of(pod: Object) -> str:
    """Return the queue that a pod names, '' for none."""
    return annotations_of(pod).get(QUEUE, "")


def has_ended(pod: Object) -> bool:
    """Return whether a pod has ended and holds no devices."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_going(pod: Object | None) -> bool:
    """Return whether a pod is terminating or does not exist."""
    return pod is None or "deletionTimestamp" in pod["metadata"]


def waiting_reason(pod: Object) -> str:
    """Return why a pod waits by its condition ``PodScheduled``, '' if it gives no reason."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return str(said.get("message", "")) if said.get("status") == "False" else ""
