"""The PodGroups that Volcano's podgroup controller gives to pods of other controllers.

Source: volcano-sh/volcano pkg/controllers/podgroup (buildPodGroupFromPod): one PodGroup for each owner of pods whose
scheduler is Volcano and that name no PodGroup, with the minimum of the owner's annotation, else 1.
"""

from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.quota import quota_usage

SCHEDULERS = ("deviceshare", "volcano")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
_INHERITED = "volcano.sh/"


def owner_group(owner: Object, template: Mapping[str, Any]) -> Object | None:
    """Return the PodGroup of the pods of an owner, made from its template; None if it has none."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    annotations = metadata.get("annotations") or {}
    if spec.get("schedulerName") not in SCHEDULERS or annotations.get(GROUP_ANNOTATION):
        return None
    of_owner = owner["metadata"].get("annotations") or {}
    minimum = _minimum(of_owner.get(MIN_MEMBER))
    group: dict[str, Any] = {"minMember": minimum, "minResources": total_usage(spec, minimum)}
    if spec.get("priorityClassName"):
        group["priorityClassName"] = spec["priorityClassName"]
    if annotations.get(QUEUE_NAME):
        group["queue"] = annotations[QUEUE_NAME]
    return child(
        owner,
        "PodGroup",
        f"podgroup-{owner['metadata']['uid']}",
        group,
        annotations=_inherited(of_owner) | _inherited(annotations),
        labels=_inherited(metadata.get("labels") or {}),
    )


def join(pod: Object, group: Object | None) -> Object:
    """Add a pod to a PodGroup, in place; returns the pod."""
    if group is not None:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = annotations | {GROUP_ANNOTATION: group["metadata"]["name"]}
    return pod


def total_usage(spec: Mapping[str, Any], count: int) -> dict[str, str]:
    """Return the usage of ``count`` pods as Volcano computes it, with limits as requests where these are missing."""
    return {name: str(amount) for name, amount in sorted(quota_usage(_with_requests(spec), count).items())}


def _with_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            found[field] = [_with_own_requests(container) for container in spec[field]]
    return found


def _with_own_requests(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**container, "resources": {"limits": limits, "requests": {**limits, **requests}}}


def _minimum(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and int(text) < 2**31 else 1


def _inherited(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name.startswith(_INHERITED)}
