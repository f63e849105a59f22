"""The PodGroup that Volcano's job controller creates for a Job.

Source: volcano-sh/volcano pkg/controllers/job/job_controller_actions.go (createOrUpdatePodGroup, calcPGMinResources)
and job_controller_util.go. The tests compare it with recordings of that controller.
"""

from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.quota import Sum, add_usage, quota_usage

PARTITION_LABEL = "volcano.sh/partition-id"


def group_name(job: Object) -> str:
    """Return the name of a Job's PodGroup."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def pod_group(job: Object, priorities: Mapping[str, int]) -> Object:
    """Return the PodGroup of an admitted Job; ``priorities``: values of PriorityClasses by name."""
    metadata, spec = job["metadata"], job["spec"]
    group: dict[str, Any] = {
        "minMember": spec["minAvailable"],
        "minTaskMember": {task["name"]: task["minAvailable"] for task in spec["tasks"]},
        "queue": spec["queue"],
        "minResources": {name: str(amount) for name, amount in sorted(_least_resources(spec, priorities).items())},
    }
    if spec.get("priorityClassName"):
        group["priorityClassName"] = spec["priorityClassName"]
    if spec.get("networkTopology"):
        group["networkTopology"] = dict(spec["networkTopology"])
    if policies := [_sub_group(task) for task in spec["tasks"] if task.get("partitionPolicy")]:
        group["subGroupPolicy"] = policies
    given = {field: dict(metadata.get(field) or {}) for field in ("annotations", "labels")}
    return child(job, "PodGroup", group_name(job), group, **given)


def _sub_group(task: Mapping[str, Any]) -> dict[str, Any]:
    policy = task["partitionPolicy"]
    found = {
        "name": task["name"],
        "subGroupSize": policy.get("partitionSize", 0),
        "minSubGroups": policy.get("minPartitions", 0),
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": task["name"]}},
        "matchLabelKeys": [PARTITION_LABEL],
    }
    if policy.get("networkTopology"):
        found["networkTopology"] = dict(policy["networkTopology"])
    return found


def _least_resources(spec: Mapping[str, Any], priorities: Mapping[str, int]) -> dict[str, Sum]:
    """Return the total usage of the first ``minAvailable`` pods, by priority, then in the order of the Job's tasks."""

    def priority(task: Mapping[str, Any]) -> int:
        return priorities.get(task["template"]["spec"].get("priorityClassName") or "", 0)

    total: dict[str, Sum] = {}
    tasks = sorted(spec["tasks"], key=priority, reverse=True)
    for task, count in zip(tasks, _least_pods(tasks, spec["minAvailable"]), strict=True):
        add_usage(total, quota_usage(task["template"]["spec"], count))
    return total


def _least_pods(tasks: list[Mapping[str, Any]], least: int) -> list[int]:
    """Return how many pods of each task are among the first ``least``: the minimum of each task first, if they fit."""
    counts = [task["minAvailable"] for task in tasks]
    if least < sum(counts):
        counts = [0] * len(tasks)
    left = least - sum(counts)
    for index, task in enumerate(tasks):
        more = min(left, task["replicas"] - counts[index])
        counts[index] += more
        left -= more
    return counts
