"""The objects that Volcano's job controller creates for a Job: PodGroup, pods, and objects of its plugins.

Source: volcano-sh/volcano pkg/controllers/job (names, labels, annotations, owner). Volcano creates the pods after the
PodGroup is admitted to its queue; the local cluster creates them immediately, and they wait for admission.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.job_plugins import add_to_pod, add_to_template, plugin_objects
from deviceshare_localcluster.owned_objects import child, copied
from deviceshare_localcluster.pod_groups import PARTITION_LABEL, group_name, pod_group

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_INHERITED_ANNOTATIONS = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
)
_DISRUPTION_ANNOTATIONS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""A pod inherits only the first of them."""
_INHERITED_LABELS = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")


def companion_objects(job: Object, priorities: Mapping[str, int]) -> list[Object]:
    """Return the objects of an admitted Job other than pods: the PodGroup and the objects of its plugins.

    ``priorities``: values of PriorityClasses by name.
    """
    return [pod_group(job, priorities), *plugin_objects(job)]


def pod_names(job: Object) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Yield name, task and index within the task of every pod of an admitted Job."""
    name = job["metadata"]["name"]
    for task in job["spec"]["tasks"]:
        for index in range(task["replicas"]):
            yield f"{name}-{task['name']}-{index}", task, index


def pod_maker(job: Object, task: Mapping[str, Any]) -> Callable[[int], Object]:
    """Return a function from an index to the pod of a task, not yet admitted."""
    # A task may have thousands of pods: the shared part is encoded once, and decoded for each pod.
    shared = msgspec.json.encode(_pod_template(job, task))
    prefix = f"{job['metadata']['name']}-{task['name']}-"
    partition_size = (task.get("partitionPolicy") or {}).get("partitionSize")

    def pod(index: int) -> Object:
        made: Object = msgspec.json.decode(shared)
        metadata = made["metadata"]
        metadata["name"] = f"{prefix}{index}"
        metadata["annotations"]["volcano.sh/task-index"] = str(index)
        metadata["labels"]["volcano.sh/task-index"] = str(index)
        if partition_size:
            metadata["labels"][PARTITION_LABEL] = str(index // partition_size)
        add_to_pod(job, made, index)
        return made

    return pod


def _pod_template(job: Object, task: Mapping[str, Any]) -> Object:
    """Return the shared part of all pods of a task."""
    name, spec, status = job["metadata"]["name"], job["spec"], job.get("status") or {}
    # A copy: the plugins add to it.
    template = copied(task["template"])
    given = template.get("metadata") or {}
    ours = {"volcano.sh/task-spec": task["name"], "volcano.sh/job-name": name, "volcano.sh/queue-name": spec["queue"]}
    annotations = (given.get("annotations") or {}) | ours
    annotations |= {
        GROUP_ANNOTATION: group_name(job),
        "volcano.sh/job-version": str(status.get("version", 0)),
        "volcano.sh/template-uid": f"{name}-{task['name']}",
        "volcano.sh/job-retry-count": str(status.get("retryCount", 0)),
    }
    if task.get("topologyPolicy"):
        annotations["volcano.sh/numa-topology-policy"] = task["topologyPolicy"]
    of_job = job["metadata"].get("annotations")
    annotations |= _chosen(of_job, _INHERITED_ANNOTATIONS)
    annotations |= dict(list(_chosen(of_job, _DISRUPTION_ANNOTATIONS).items())[:1])
    labels = (given.get("labels") or {}) | ours | {"volcano.sh/job-namespace": job["metadata"]["namespace"]}
    labels |= _chosen(job["metadata"].get("labels"), _INHERITED_LABELS)
    pod = child(job, "Pod", "", template["spec"], annotations=annotations, labels=labels)
    pod["spec"]["schedulerName"] = pod["spec"].get("schedulerName") or spec["schedulerName"]
    if not pod["spec"].get("priorityClassName") and spec.get("priorityClassName"):
        pod["spec"]["priorityClassName"] = spec["priorityClassName"]
    _add_volumes(job, pod["spec"])
    add_to_template(job, pod)
    return pod


def _add_volumes(job: Object, spec: dict[str, Any]) -> None:
    """Mount the Job's claims; a claim without a name gets a name in Volcano's format."""
    for volume in job["spec"].get("volumes") or ():
        # Volcano uses random letters; these are the same for all pods and in all runs.
        seed = f"{job['metadata']['uid']} {volume['mountPath']}".encode()
        letters = hashlib.sha256(seed).hexdigest()[:12]
        claim = volume.get("volumeClaimName") or f"{job['metadata']['name']}-pvc-{letters}"
        name = f"{job['metadata']['name']}-{letters}"
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
        for container in spec["containers"]:
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [*mounts, {"name": name, "mountPath": volume["mountPath"]}]


def _chosen(given: Mapping[str, str] | None, names: tuple[str, ...]) -> dict[str, str]:
    return {name: given[name] for name in names if given and name in given}
