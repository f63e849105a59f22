"""Kubeflow's training jobs, MPIJob and Notebook.

Source: kubeflow/training-operator pkg/controller.v1 (common, control/podgroup_control.go), kubeflow/mpi-operator
pkg/controller, kubeflow/kubeflow components/notebook-controller, with gang scheduling by Volcano. A failed pod is
created again where its replica's ``restartPolicy`` is Always or OnFailure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.kinds import KUBERNETES_JOB
from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.quota import Sum, add_usage, request_totals
from deviceshare_localcluster.workloads.model import Desired, Owned, pod_of, whole, with_metadata

_LABEL = "training.kubeflow.org"
_VOLCANO = "volcano"
_TASK = "volcano.sh/task-spec"
_QUEUE = "scheduling.volcano.sh/queue-name"
_STOPPED = "kubeflow-resource-stopped"


class TrainingKind(NamedTuple):
    """A kind of the training operator: the field of its replicas, and those that have the role of a master."""

    field: str
    masters: tuple[str, ...]


TRAINING = {
    "PyTorchJob": TrainingKind("pytorchReplicaSpecs", ("Master",)),
    "TFJob": TrainingKind("tfReplicaSpecs", ("Chief", "Master")),
    "XGBoostJob": TrainingKind("xgbReplicaSpecs", ("Master",)),
    "PaddleJob": TrainingKind("paddleReplicaSpecs", ("Master",)),
    "JAXJob": TrainingKind("jaxReplicaSpecs", ()),
}
MPI_FIELD = "mpiReplicaSpecs"
_LAUNCHER, _WORKER = "Launcher", "Worker"


def training_job(obj: Object, owned: Owned) -> Desired:
    """Return the PodGroup and the pods of a job of the training operator."""
    kind, replicas = TRAINING[obj["kind"]], obj["spec"][TRAINING[obj["kind"]].field]
    if _policy(obj).get("suspend"):
        return Desired()
    group = _group(obj, replicas)
    name = obj["metadata"]["name"]
    has_master = any(each in replicas for each in kind.masters)
    pods = []
    for role, replica in replicas.items():
        restarts = replica.get("restartPolicy") in ("Always", "OnFailure")
        for index in range(whole(replica.get("replicas"), 1)):
            pod_name = f"{name}-{role.lower()}-{index}"
            state = owned.pods.get(pod_name)
            if state is not None and state.phase == "Failed" and restarts:
                continue  # deleted, then created again
            labels = {
                f"{_LABEL}/job-name": name,
                f"{_LABEL}/operator-name": f"{obj['kind'].lower()}-controller",
                f"{_LABEL}/replica-type": role.lower(),
                f"{_LABEL}/replica-index": str(index),
            }
            if role in kind.masters or (obj["kind"] == "TFJob" and not has_master and (role, index) == (_WORKER, 0)):
                labels[f"{_LABEL}/job-role"] = "master"
            pod = pod_of(obj, replica["template"], pod_name, labels, {GROUP_ANNOTATION: name, _TASK: role.lower()})
            pod["spec"]["schedulerName"] = pod["spec"].get("schedulerName") or _VOLCANO
            _set_restart_policy(pod["spec"], replica)
            pods.append(pod)
    return Desired(pods, [group])


def mpi_job(obj: Object, _: Owned) -> Desired:
    """Return the PodGroup, the workers and the Job of the launcher of an MPIJob."""
    replicas = obj["spec"][MPI_FIELD]
    if _policy(obj).get("suspend"):
        return Desired()
    name = obj["metadata"]["name"]
    worker = replicas.get(_WORKER) or {}
    common = {f"{_LABEL}/operator-name": "mpi-operator", f"{_LABEL}/job-name": name}
    in_group = {GROUP_ANNOTATION: name}
    pods = []
    for index in range(whole(worker.get("replicas"), 1) if worker else 0):
        labels = common | {f"{_LABEL}/job-role": "worker", f"{_LABEL}/replica-index": str(index)}
        pod = pod_of(obj, worker["template"], f"{name}-worker-{index}", labels, in_group)
        pod["spec"] |= {"schedulerName": _VOLCANO, "hostname": f"{name}-worker-{index}", "subdomain": name}
        _set_restart_policy(pod["spec"], worker)
        pods.append(pod)
    launcher = replicas[_LAUNCHER]
    template = with_metadata(launcher["template"], common | {f"{_LABEL}/job-role": "launcher"}, in_group)
    template["spec"] |= {"schedulerName": _VOLCANO, "hostname": f"{name}-launcher", "subdomain": name}
    _set_restart_policy(template["spec"], launcher)
    spec = {"template": template}
    for field in ("backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        if field in _policy(obj):
            spec[field] = _policy(obj)[field]
    job = child(obj, KUBERNETES_JOB, f"{name}-launcher", spec, labels={"app": name})
    return Desired(pods, [_group(obj, replicas), job])


def notebook(obj: Object, _: Owned) -> Desired:
    """Return the StatefulSet of a Notebook."""
    metadata = obj["metadata"]
    name = metadata["name"]
    stopped = _STOPPED in (metadata.get("annotations") or {})
    labels = {"statefulset": name, "notebook-name": name}
    template = with_metadata(obj["spec"]["template"], labels | (metadata.get("labels") or {}))
    spec = {"replicas": 0 if stopped else 1, "selector": {"matchLabels": {"statefulset": name}}, "template": template}
    return Desired(updated=[child(obj, "StatefulSet", name, spec)])


def _policy(obj: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = obj["spec"].get("runPolicy") or {}
    return found


def _set_restart_policy(spec: dict[str, Any], replica: Mapping[str, Any]) -> None:
    """Set the policy of a replica in its pod: ExitCode, which only the operator knows, becomes Never."""
    policy = replica.get("restartPolicy") or "Never"
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy


def _group(obj: Object, replicas: Mapping[str, Any]) -> Object:
    """Return the PodGroup, with the name of the job."""
    scheduling = _policy(obj).get("schedulingPolicy") or {}
    total = sum(whole(replica.get("replicas"), 1) for replica in replicas.values())
    minimum = whole(scheduling.get("minAvailable"), total)
    spec: dict[str, Any] = {"minMember": minimum}
    if queue := scheduling.get("queue") or (obj["metadata"].get("annotations") or {}).get(_QUEUE):
        spec["queue"] = queue
    if priority := scheduling.get("priorityClass") or _priority(obj, replicas):
        spec["priorityClassName"] = priority
    needs = scheduling.get("minResources") or least_resources(_templates(replicas), minimum)
    return child(obj, "PodGroup", obj["metadata"]["name"], spec | {"minResources": needs})


def _priority(obj: Object, replicas: Mapping[str, Any]) -> str:
    """Return the priority class of the launcher or the workers of an MPIJob; other jobs name it themselves."""
    if obj["kind"] != "MPIJob":
        return ""
    roles = (replicas.get(role) for role in (_LAUNCHER, _WORKER))
    classes = (replica["template"]["spec"].get("priorityClassName") for replica in roles if replica)
    return next(filter(None, classes), "")


def _templates(replicas: Mapping[str, Any]) -> Iterable[tuple[Mapping[str, Any], int]]:
    for replica in replicas.values():
        yield replica["template"]["spec"], whole(replica.get("replicas"), 1)


def least_resources(pods: Iterable[tuple[Mapping[str, Any], int]], minimum: int) -> dict[str, str]:
    """Return the requests of the first ``minimum`` pods of pod specs with their numbers of pods."""
    total: dict[str, Sum] = {}
    for spec, count in pods:
        counted = min(count, minimum)
        minimum -= counted
        add_usage(total, request_totals(spec, counted))
    return {name: str(amount) for name, amount in sorted(total.items())}
