"""KubeRay's RayCluster, RayJob and RayService.

Source: ray-project/kuberay ray-operator/controllers/ray (names and labels of pods) and batchscheduler/volcano. The
autoscaler and the Ray processes are not played: a cluster has its desired workers, and a RayJob's submitter starts at
once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.kinds import KUBERNETES_JOB
from deviceshare_localcluster.names import letters
from deviceshare_localcluster.owned_objects import child, copied
from deviceshare_localcluster.workloads.kubeflow import least_resources
from deviceshare_localcluster.workloads.model import Desired, Owned, PodState, pod_of, replica_names, whole

_QUEUE = "volcano.sh/queue-name"
_PRIORITY = "ray.io/priority-class-name"
_TASK = "volcano.sh/task-spec"
_HEAD_GROUP = "headgroup"


def ray_cluster(obj: Object, owned: Owned) -> Desired:
    """Return the PodGroup, the head and the workers of a RayCluster; pods that have ended are replaced."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("suspend"):
        return Desired()
    name = metadata["name"]
    head = f"{name}-head"
    pods = []
    if head not in owned.pods or not owned.pods[head].ended:
        pods.append(_pod(obj, spec["headGroupSpec"], head, "head", _HEAD_GROUP))
    for group in _groups(spec):
        prefix = f"{name}-{group['groupName']}-worker-"
        of_group: dict[str, PodState] = {each: pod for each, pod in owned.pods.items() if each.startswith(prefix)}
        names = replica_names(prefix, workers_of(group), of_group, metadata["namespace"], is_taken=owned.is_taken)
        pods += [_pod(obj, group, each, "worker", group["groupName"]) for each in names]
    return Desired(pods, [_pod_group(obj)])


def ray_job(obj: Object, _: Owned) -> Desired:
    """Return the RayCluster of a RayJob, and the Job that submits it."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("suspend") or not spec.get("rayClusterSpec"):
        return Desired()
    cluster = _cluster_of(obj, spec["rayClusterSpec"])
    found = [cluster]
    if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode":
        template = copied(spec.get("submitterPodTemplate") or _submitter(spec["rayClusterSpec"]))
        template["spec"].setdefault("restartPolicy", "Never")
        submitter = {
            "template": template,
            "backoffLimit": whole((spec.get("submitterConfig") or {}).get("backoffLimit"), 2),
        }
        found.append(child(obj, KUBERNETES_JOB, metadata["name"], submitter, labels=_created_by(obj)))
    return Desired(updated=found)


def ray_service(obj: Object, _: Owned) -> Desired:
    """Return the RayCluster of a RayService."""
    return Desired(updated=[_cluster_of(obj, obj["spec"]["rayClusterConfig"])])


def _cluster_of(obj: Object, spec: Mapping[str, Any]) -> Object:
    metadata = obj["metadata"]
    name = f"{metadata['name'][:57]}-{letters(obj['kind'], metadata['namespace'], metadata['name'])}"
    labels = {**(metadata.get("labels") or {}), **_created_by(obj)}
    return child(obj, "RayCluster", name, copied(spec), labels=labels, annotations=metadata.get("annotations"))


def _created_by(obj: Object) -> dict[str, str]:
    return {
        "ray.io/originated-from-cr-name": obj["metadata"]["name"],
        "ray.io/originated-from-crd": obj["kind"],
    }


def _submitter(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of the submitter of a RayJob that has none: the head's image, and small requests."""
    container = {
        "name": "ray-job-submitter",
        "image": cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["image"],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}},
    }
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _pod(obj: Object, group: Mapping[str, Any], name: str, role: str, group_name: str) -> Object:
    cluster = obj["metadata"]["name"]
    own = obj["metadata"].get("labels") or {}
    labels = {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": cluster,
        "ray.io/node-type": role,
        "ray.io/group": group_name,
        "ray.io/identifier": f"{cluster}-{role}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    given = (group["template"].get("metadata") or {}).get("labels") or {}
    labels |= {
        key: value for key, value in given.items() if key not in ("ray.io/node-type", "ray.io/group", "ray.io/cluster")
    }
    if own.get(_QUEUE):
        labels[_QUEUE] = own[_QUEUE]
    annotations = {GROUP_ANNOTATION: f"ray-{cluster}-pg", _TASK: group_name}
    pod = pod_of(obj, group["template"], name, labels, annotations)
    pod["spec"]["schedulerName"] = "volcano"
    if own.get(_PRIORITY):
        pod["spec"]["priorityClassName"] = own[_PRIORITY]
    return pod


def _pod_group(obj: Object) -> Object:
    """Return the PodGroup: all pods, with the autoscaler only the head and the least workers."""
    spec, labels = obj["spec"], obj["metadata"].get("labels") or {}
    count = _least_workers if spec.get("enableInTreeAutoscaling") else workers_of
    pods = [(spec["headGroupSpec"]["template"]["spec"], 1)]
    pods += [(group["template"]["spec"], count(group)) for group in _groups(spec)]
    size = sum(number for _, number in pods)
    found: dict[str, Any] = {"minMember": size, "minResources": least_resources(pods, size)}
    if labels.get(_QUEUE):
        found["queue"] = labels[_QUEUE]
    if labels.get(_PRIORITY):
        found["priorityClassName"] = labels[_PRIORITY]
    return child(obj, "PodGroup", f"ray-{obj['metadata']['name']}-pg", found)


def _groups(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [group for group in spec.get("workerGroupSpecs") or () if not group.get("suspend")]


def workers_of(group: Mapping[str, Any]) -> int:
    """Return the pods of a group: its replicas within its limits, times the hosts of each."""
    replicas = whole(group.get("replicas"), whole(group.get("minReplicas"), 0))
    replicas = max(whole(group.get("minReplicas"), 0), min(replicas, whole(group.get("maxReplicas"), replicas)))
    return replicas * whole(group.get("numOfHosts"), 1)


def _least_workers(group: Mapping[str, Any]) -> int:
    return whole(group.get("minReplicas"), 0) * whole(group.get("numOfHosts"), 1)
