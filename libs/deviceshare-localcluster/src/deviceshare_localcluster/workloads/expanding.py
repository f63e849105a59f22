"""The workloads by kind, and the objects that one leads to in the end."""

from collections.abc import Callable, Iterator, Mapping

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import companion_objects, pod_maker, pod_names
from deviceshare_localcluster.kinds import KUBERNETES_JOB, VOLCANO_JOB, Key, kind_of
from deviceshare_localcluster.pod_bounds import MAX_PODS
from deviceshare_localcluster.workloads import apps, batch, kubeflow, ray, sets
from deviceshare_localcluster.workloads.model import Desired, Owned, PodState

Rule = Callable[[Object, Owned], Desired]

_RULES: Mapping[str, Rule] = {
    "Deployment": apps.deployment,
    "ReplicaSet": apps.replica_set,
    "StatefulSet": apps.stateful_set,
    KUBERNETES_JOB: batch.kubernetes_job,
    "CronJob": batch.cron_job,
    **dict.fromkeys(kubeflow.TRAINING, kubeflow.training_job),
    "MPIJob": kubeflow.mpi_job,
    "Notebook": kubeflow.notebook,
    "RayCluster": ray.ray_cluster,
    "RayJob": ray.ray_job,
    "RayService": ray.ray_service,
    "LeaderWorkerSet": sets.leader_worker_set,
    "JobSet": sets.job_set,
}
WORKLOADS = (VOLCANO_JOB, *_RULES)
"""The kinds of workloads."""
FOLLOWS_PODS = frozenset(_RULES)
"""The kinds whose objects depend on the states of their pods."""
CLAIM = "PersistentVolumeClaim"


def desired(obj: Object, owned: Owned) -> Desired:
    """Return what an admitted workload, other than Volcano's Job, should own, given what it owns."""
    return _RULES[kind_of(obj)](obj, owned)


def all_objects(obj: Object, priorities: Mapping[str, int], admitted: Callable[[Object], Object]) -> Iterator[Object]:
    """Yield the PodGroups, volume claims and pods, admitted, of an admitted workload while all of its pods run.

    Args:
        obj: the workload.
        priorities: values of PriorityClasses by name.
        admitted: returns an object as the API server stores it.
    """
    if kind_of(obj) == VOLCANO_JOB:
        for companion in companion_objects(obj, priorities):
            if companion["kind"] == "PodGroup":
                yield admitted(companion)
        for _, task, index in pod_names(obj):
            yield admitted(pod_maker(obj, task)(index))
        return
    pods: dict[str, PodState] = {}
    groups: set[Key] = set()
    claims: set[str] = set()
    while True:
        found = desired(obj, Owned(pods))
        new = [each for each in found.created if each["kind"] == "Pod" and each["metadata"]["name"] not in pods]
        for each in found.updated:
            key = Key(kind_of(each), each["metadata"]["namespace"], each["metadata"]["name"])
            if key in groups:
                continue
            groups.add(key)
            if each["kind"] == "PodGroup":
                yield admitted(each)
            else:
                yield from all_objects(admitted(each), priorities, admitted)
        for each in found.created:
            if each["kind"] == CLAIM and each["metadata"]["name"] not in claims:
                claims.add(each["metadata"]["name"])
                yield admitted(each)
        for each in new:
            pods[each["metadata"]["name"]] = PodState("Running")
            yield admitted(each)
        if not new or len(pods) > MAX_PODS:
            return
