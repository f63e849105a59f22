"""Kubernetes' Job and CronJob.

Source: kubernetes/kubernetes pkg/controller/job (names, labels, completion indexes, failures) and kubectl's ``create
job --from``. Pods that failed are replaced at once, without a back-off. Schedules of CronJobs are not played.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import KUBERNETES_JOB, Key
from deviceshare_localcluster.owned_objects import child, copied
from deviceshare_localcluster.workloads.model import Desired, Owned, PodState, kept_pods, pod_of, replica_names, whole
from deviceshare_localcluster.workloads.owner_groups import join, owner_group

INDEX = "batch.kubernetes.io/job-completion-index"
INDEXED = "Indexed"
INSTANTIATED = {"cronjob.kubernetes.io/instantiate": "manual"}
"""The annotation of a Job that a user made from a CronJob."""
_DEFAULT_FAILURES = 6
_RUN = ("Pending", "Running", "Unknown", "")


def kubernetes_job(obj: Object, owned: Owned) -> Desired:
    """Return the pods of a Job, and its status."""
    spec, metadata = obj["spec"], obj["metadata"]
    finished = finished_as(obj)
    namespace = metadata["namespace"]
    failed = owned.count("Failed")
    kept = kept_pods(namespace, owned.pods)
    names = _pod_names(obj, owned)
    succeeded = owned.count("Succeeded")
    if not finished and failed > whole(spec.get("backoffLimit"), _DEFAULT_FAILURES):
        finished = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    elif not finished and _is_complete(spec, owned, names):
        finished = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    active = [] if finished or spec.get("suspend") else names
    group = owner_group(obj, spec["template"]) if active else None
    pods = [join(_pod(obj, name, index), group) for name, index in active]
    status: dict[str, Any] = {"active": len(active), "succeeded": succeeded, "failed": failed}
    if finished:
        kind, reason, message = finished
        status["conditions"] = [{"type": kind, "status": "True", "reason": reason, "message": message}]
    elif spec.get("suspend"):
        status["conditions"] = [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": ""}]
    else:
        status["conditions"] = []
    return Desired(pods, [group] if group else [], kept, status)


def finished_as(obj: Object) -> tuple[str, str, str] | None:
    """Return type, reason and message of the condition with which a Job has finished, None if it has not."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return condition["type"], condition.get("reason", ""), condition.get("message", "")
    return None


def _is_complete(spec: Mapping[str, Any], owned: Owned, names: list[tuple[str, int | None]]) -> bool:
    if spec.get("completions") is None and spec.get("parallelism") is not None:
        # A work queue: complete when a pod has succeeded, and all have ended.
        return bool(owned.count("Succeeded")) and not any(pod.phase in _RUN for pod in owned.pods.values())
    return not names and owned.count("Succeeded") >= completions_of(spec)


def completions_of(spec: Mapping[str, Any]) -> int:
    """Return the number of pods that have to succeed."""
    if spec.get("completions") is None:
        return whole(spec.get("parallelism"), 1)
    return int(spec["completions"])


def _pod_names(obj: Object, owned: Owned) -> list[tuple[str, int | None]]:
    """Return the names of the pods that should be active, with their completion indexes."""
    spec, metadata = obj["spec"], obj["metadata"]
    parallel = whole(spec.get("parallelism"), 1)
    prefix, namespace = metadata["name"], metadata["namespace"]
    pods = owned.pods
    succeeded = sum(pod.phase == "Succeeded" for pod in pods.values())
    if spec.get("completionMode") != INDEXED:
        is_queue = spec.get("completions") is None and spec.get("parallelism") is not None
        left = parallel if is_queue and not succeeded else completions_of(spec) - succeeded
        if is_queue and succeeded:
            left = sum(not pod.ended for pod in pods.values())
        count = max(0, min(parallel, left))
        names = replica_names(f"{prefix}-", count, pods, namespace, is_taken=owned.is_taken)
        return [(name, None) for name in names]
    by_prefix: defaultdict[str, dict[str, PodState]] = defaultdict(dict)
    for name, pod in pods.items():
        by_prefix[name.rpartition("-")[0]][name] = pod
    found: list[tuple[str, int | None]] = []
    for index in range(completions_of(spec)):
        if len(found) == parallel:
            break
        own = f"{prefix}-{index}-"
        of_index = by_prefix.get(own[:-1], {})
        if not any(pod.phase == "Succeeded" for pod in of_index.values()):
            names = replica_names(own, 1, of_index, namespace, is_taken=owned.is_taken)
            found += [(name, index) for name in names]
    return found


def _pod(obj: Object, name: str, index: int | None) -> Object:
    metadata = obj["metadata"]
    labels = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    if index is None:
        return pod_of(obj, obj["spec"]["template"], name, labels)
    number = {INDEX: str(index)}
    pod = pod_of(obj, obj["spec"]["template"], name, labels | number, number)
    pod["spec"]["hostname"] = f"{metadata['name']}-{index}"
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        container["env"] = [*(container.get("env") or ()), {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]
    return pod


def cron_job(obj: Object, owned: Owned) -> Desired:
    """Return that a CronJob makes no Jobs by itself, and that those made from it stay."""
    namespace = obj["metadata"]["namespace"]
    return Desired(kept=frozenset(Key(KUBERNETES_JOB, namespace, job["metadata"]["name"]) for job in owned.workloads))


def job_from(cron: Object, name: str) -> Object:
    """Return the Job that ``kubectl create job NAME --from=cronjob/…`` makes of a CronJob."""
    template = copied(cron["spec"]["jobTemplate"])
    metadata = template.get("metadata") or {}
    return child(
        cron,
        KUBERNETES_JOB,
        name,
        template["spec"],
        labels=metadata.get("labels"),
        annotations=(metadata.get("annotations") or {}) | INSTANTIATED,
    )
