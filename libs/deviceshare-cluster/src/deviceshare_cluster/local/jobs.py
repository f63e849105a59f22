"""What Volcano's job controller makes of a Job: its PodGroup, its pods, and what its plugins need.

Source: volcano-sh/volcano pkg/controllers/job (names, labels, annotations, owner). Volcano makes the pods when its
scheduler has let the PodGroup into the queue; here they are made at once, and wait for that.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from deviceshare.quantity import to_amount

from deviceshare_cluster.interface import Object
from deviceshare_cluster.local.job_plugins import add_to_pod, add_to_template, companions

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_INHERITED_ANNOTATIONS = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
)
_INHERITED_LABELS = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")


def group_name(job: Object) -> str:
    """Return the name of a Job's PodGroup."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def pod_group(job: Object) -> Object:
    """Return the PodGroup of an admitted Job."""
    metadata, spec = job["metadata"], job["spec"]
    group = {
        "minMember": spec["minAvailable"],
        "minTaskMember": {task["name"]: task["minAvailable"] for task in spec["tasks"]},
        "queue": spec["queue"],
        "minResources": _least_resources(spec),
    }
    if spec.get("priorityClassName"):
        group["priorityClassName"] = spec["priorityClassName"]
    owned: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group_name(job), **_owned(job)},
        "spec": group,
    }
    for field in ("annotations", "labels"):
        if metadata.get(field):
            owned["metadata"][field] = dict(metadata[field])
    return owned


def beside(job: Object) -> list[Object]:
    """Return what an admitted Job has beside its pods: the PodGroup and the objects of its plugins."""
    out = [pod_group(job)]
    for one in companions(job):
        one["metadata"] |= _owned(job)
        out.append(one)
    return out


def pod_names(job: Object) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Yield name, task and number within the task of every pod that an admitted Job wants."""
    name = job["metadata"]["name"]
    for task in job["spec"]["tasks"]:
        for index in range(task["replicas"]):
            yield f"{name}-{task['name']}-{index}", task, index


def pod_maker(job: Object, task: Mapping[str, Any]) -> Callable[[int], Object]:
    """Return the function from a number to that pod of a task, not yet admitted."""
    # A task may have thousands of pods: what they share is made once, and copied by way of its bytes.
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
            metadata["labels"]["volcano.sh/partition-id"] = str(index // partition_size)
        add_to_pod(job, made, index)
        return made

    return pod


def _pod_template(job: Object, task: Mapping[str, Any]) -> Object:
    """Return what all pods of a task share."""
    name, spec, status = job["metadata"]["name"], job["spec"], job.get("status") or {}
    # A copy: the plugins add to it.
    template = msgspec.json.decode(msgspec.json.encode(task["template"]))
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
    annotations |= _chosen(job["metadata"].get("annotations"), _INHERITED_ANNOTATIONS)
    labels = (given.get("labels") or {}) | ours | {"volcano.sh/job-namespace": job["metadata"]["namespace"]}
    labels |= _chosen(job["metadata"].get("labels"), _INHERITED_LABELS)
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "", **_owned(job), "annotations": annotations, "labels": labels},
        "spec": template["spec"],
    }
    pod["spec"]["schedulerName"] = pod["spec"].get("schedulerName") or spec["schedulerName"]
    if not pod["spec"].get("priorityClassName") and spec.get("priorityClassName"):
        pod["spec"]["priorityClassName"] = spec["priorityClassName"]
    _add_volumes(job, pod["spec"])
    add_to_template(job, pod)
    return pod


def _add_volumes(job: Object, spec: dict[str, Any]) -> None:
    """Mount the Job's claims; a claim without a name gets one, as Volcano generates it."""
    for volume in job["spec"].get("volumes") or ():
        # Volcano draws these letters at random; here they stay the same from pod to pod and from run to run.
        seed = f"{job['metadata']['uid']} {volume['mountPath']}".encode()
        letters = hashlib.sha256(seed).hexdigest()[:12]
        claim = volume.get("volumeClaimName") or f"{job['metadata']['name']}-pvc-{letters}"
        name = f"{job['metadata']['name']}-{letters}"
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
        for container in spec["containers"]:
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [*mounts, {"name": name, "mountPath": volume["mountPath"]}]


def _owned(job: Object) -> dict[str, Any]:
    """Return the metadata of what belongs to a Job."""
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"]}
    owner |= {"uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    return {"namespace": job["metadata"]["namespace"], "ownerReferences": [owner]}


def _chosen(given: Mapping[str, str] | None, names: tuple[str, ...]) -> dict[str, str]:
    return {name: given[name] for name in names if given and name in given}


def _least_resources(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what the first ``minAvailable`` pods ask together, each task's own minimum first."""
    left = spec["minAvailable"]
    counts = []
    for task in spec["tasks"]:
        counts.append(min(left, task["minAvailable"]))
        left -= counts[-1]
    for index, task in enumerate(spec["tasks"]):
        more = min(left, task["replicas"] - counts[index])
        counts[index] += more
        left -= more
    total: dict[str, int] = {}
    for task, count in zip(spec["tasks"], counts, strict=True):
        for container in task["template"]["spec"]["containers"]:
            resources = container.get("resources") or {}
            for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
                total[name] = total.get(name, 0) + count * to_amount(name, value, task["name"], name)
    return {name: f"{value}m" if name == "cpu" else str(value) for name, value in total.items()}
