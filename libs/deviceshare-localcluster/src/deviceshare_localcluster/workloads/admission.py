"""Checks and defaults of workloads: those of the API server for Kubernetes' kinds, and of pod templates for others."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deviceshare_localcluster.checks import ManifestField
from deviceshare_localcluster.kinds import KUBERNETES_JOB
from deviceshare_localcluster.owned_objects import copied
from deviceshare_localcluster.pod_admission import admit_amounts, admit_pod_spec
from deviceshare_localcluster.pod_bounds import at_most_max, check_total
from deviceshare_localcluster.workloads.kubeflow import MPI_FIELD, TRAINING
from deviceshare_localcluster.workloads.model import whole
from deviceshare_localcluster.workloads.ray import workers_of

_DEEPEST = 12
"""Levels of an object in which pod templates are looked for."""
_JOB_WITHOUT_EFFECT = (
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "podFailurePolicy",
    "successPolicy",
)
_EXCLUSIVE = {
    "leaderworkerset.sigs.k8s.io/exclusive-topology": "groups",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "subgroups",
}
"""Annotations of a LeaderWorkerSet that keep its groups or subgroups apart."""
_RESTARTS_OF_JOBS = ("Never", "OnFailure")
_RESTARTS_OF_REPLICAS = ("Always", "OnFailure", "Never", "ExitCode")
_SCHEDULE = re.compile(r"@\w+|\S+( +\S+){4}")


_GANG_JOB = {
    "runPolicy": "mapping",
    "runPolicy.suspend": "flag",
    "runPolicy.schedulingPolicy": "mapping",
    "runPolicy.schedulingPolicy.minAvailable": "whole",
    "runPolicy.schedulingPolicy.queue": "text",
    "runPolicy.schedulingPolicy.priorityClass": "text",
    "runPolicy.schedulingPolicy.minResources": "amounts",
}
_RAY_CLUSTER = {"suspend": "flag", "enableInTreeAutoscaling": "flag"}
_FIELDS = {
    "Deployment": {"paused": "flag", "revisionHistoryLimit": "whole"},
    "StatefulSet": {
        "podManagementPolicy": "text",
        "serviceName": "text",
        "ordinals": "mapping",
        "ordinals.start": "whole",
        "updateStrategy": "mapping",
    },
    KUBERNETES_JOB: {"suspend": "flag"},
    **dict.fromkeys((*TRAINING, "MPIJob"), _GANG_JOB),
    "RayCluster": _RAY_CLUSTER,
    "RayJob": {
        "suspend": "flag",
        "submissionMode": "text",
        "submitterConfig": "mapping",
        "submitterConfig.backoffLimit": "whole",
        **{f"rayClusterSpec.{field}": form for field, form in _RAY_CLUSTER.items()},
    },
    "RayService": {f"rayClusterConfig.{field}": form for field, form in _RAY_CLUSTER.items()},
    "LeaderWorkerSet": {"startupPolicy": "text", "leaderWorkerTemplate.restartPolicy": "text"},
    "JobSet": {
        "suspend": "flag",
        "network": "mapping",
        "network.subdomain": "text",
        "network.enableDNSHostnames": "flag",
    },
}
"""The form of the optional fields of ``spec`` that controllers read, by kind."""


def admit_workload(kind: str, root: ManifestField) -> None:
    """Check a workload of a kind other than Volcano's Job and fill in its defaults, in place. Raises RequestError."""
    spec = root["spec"]
    spec.mapping("a mapping")
    if kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        _admit_app(spec)
    elif kind == KUBERNETES_JOB:
        _admit_job(spec)
    elif kind == "CronJob":
        _admit_cron_job(spec, root["metadata"]["name"])
    elif kind in TRAINING:
        _admit_replica_specs(spec[TRAINING[kind].field])
    elif kind == "MPIJob":
        _admit_replica_specs(spec[MPI_FIELD])
        spec[MPI_FIELD]["Launcher"].mapping("a mapping: an MPIJob has a launcher")
    else:
        _ADMISSIONS[kind](spec)
    if kind == "LeaderWorkerSet":
        _warn_of_leader_worker_set(root)
    for path, form in _FIELDS.get(kind, {}).items():
        field = spec
        for step in path.split("."):
            field = field[step]
        _check_form(field, form)


def _check_form(field: ManifestField, form: str) -> None:
    """Check an optional field: a flag, a text, a whole number, a mapping, or amounts by resource."""
    match form:
        case "flag":
            if not isinstance(field.value, bool | None):
                raise field.error("true or false")
        case "text":
            field.optional_text()
        case "whole":
            if field.value is not None:
                field.whole()
        case "amounts":
            admit_amounts(field)
        case _:
            field.optional_mapping()


def template_fields(root: ManifestField) -> Iterator[ManifestField]:
    """Yield the pod templates of an object as fields."""
    for path in pod_template_paths(root.value):
        field = root
        for step in path:
            field = field[step]
        yield field


def pod_template_paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all pod templates in an object: mappings with a ``spec`` that has containers."""
    if len(path) > _DEEPEST:
        return
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if path and isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
            yield path
            return
        for name, each in value.items():
            if isinstance(name, str):
                yield from pod_template_paths(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from pod_template_paths(each, (*path, number))


def _admit_app(spec: ManifestField) -> None:
    _check_sizes(spec, "replicas")
    _admit_template(spec["template"])
    selector = spec["selector"]
    selector.mapping("a selector that matches the labels of the template")
    wanted = selector["matchLabels"].texts().optional_mapping()
    labels = spec["template"]["metadata"]["labels"].optional_mapping()
    for key, value in wanted.items():
        if labels.get(key) != value:
            raise selector["matchLabels"][key].error(f"the value in the labels of the template: {labels.get(key)}")
    if not wanted and not selector["matchExpressions"].items():
        raise selector.error("a selector that matches the labels of the template")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy.value not in (None, "Always"):
        raise policy.error("Always")
    for template in spec["volumeClaimTemplates"].items():
        template["metadata"]["name"].name()
        template["metadata"]["labels"].check_labels()


def _admit_job(spec: ManifestField) -> None:
    _check_sizes(spec, "parallelism", "completions", "backoffLimit")
    if spec["completionMode"].value is not None:
        spec["completionMode"].choice(("NonIndexed", "Indexed"))
    if spec["completionMode"].value == "Indexed" and spec["completions"].value is None:
        raise spec["completions"].error("a number: the completion mode is Indexed")
    if spec["completions"].value is None and spec["parallelism"].value is None:
        spec.value |= {"completions": 1, "parallelism": 1}
    elif spec["parallelism"].value is None:
        spec.value["parallelism"] = 1
    spec.value.setdefault("backoffLimit", 6)
    _admit_template(spec["template"])
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy.value not in _RESTARTS_OF_JOBS:
        raise policy.error(f"one of {', '.join(_RESTARTS_OF_JOBS)}")
    for field in _JOB_WITHOUT_EFFECT:
        if spec[field].value is not None:
            spec[field].warn(f"{spec[field].path} is not played by the local cluster")


def _admit_cron_job(spec: ManifestField, name: ManifestField) -> None:
    schedule = spec["schedule"]
    if not isinstance(schedule.value, str) or not _SCHEDULE.fullmatch(schedule.value.strip()):
        raise schedule.error("five fields, such as 0 3 * * *")
    template = spec["jobTemplate"]
    template.mapping("a mapping with the spec of a Job")
    template["spec"].mapping("the spec of a Job")
    template["metadata"].check_metadata()
    _admit_job(template["spec"])
    schedule.warn(
        f'{schedule.path} is not played by the local cluster: make Jobs with "deviceshare create job NAME '
        f'--from=cronjob/{name.value}"'
    )


def _admit_replica_specs(specs: ManifestField) -> None:
    if not specs.mapping("replicas by role"):
        raise specs.error("replicas by role")
    for role in specs.value:
        replica = specs[role]
        replica.mapping("replicas and a template")
        _check_sizes(replica, "replicas")
        if replica["restartPolicy"].value:
            replica["restartPolicy"].choice(_RESTARTS_OF_REPLICAS)
        _admit_template(replica["template"])
    check_total(specs, sum(whole(replica.get("replicas"), 1) for replica in specs.value.values()))


def _admit_ray_cluster(spec: ManifestField) -> None:
    spec["headGroupSpec"].mapping("a mapping with a template")
    _admit_template(spec["headGroupSpec"]["template"])
    names = set[str]()
    for group in spec["workerGroupSpecs"].items():
        group.mapping("a worker group")
        group["groupName"].own_label(names, "worker group")
        _check_sizes(group, "replicas", "minReplicas", "maxReplicas", "numOfHosts")
        _check_form(group["suspend"], "flag")
        _admit_template(group["template"])
    groups = spec["workerGroupSpecs"]
    check_total(groups, sum(workers_of(group.value) for group in groups.items()))


def _admit_ray_job(spec: ManifestField) -> None:
    if spec["rayClusterSpec"].value is None:
        spec["clusterSelector"].mapping("a mapping: a RayJob has a rayClusterSpec or a clusterSelector")
        return
    spec["rayClusterSpec"].mapping()
    _admit_ray_cluster(spec["rayClusterSpec"])
    if spec["submitterPodTemplate"].value is not None:
        _admit_template(spec["submitterPodTemplate"])


def _admit_ray_service(spec: ManifestField) -> None:
    spec["rayClusterConfig"].mapping("the spec of a RayCluster")
    _admit_ray_cluster(spec["rayClusterConfig"])


def _admit_leader_worker_set(spec: ManifestField) -> None:
    _check_sizes(spec, "replicas")
    of_group = spec["leaderWorkerTemplate"]
    of_group.mapping("a mapping with a workerTemplate")
    if of_group["size"].value is not None:
        of_group["size"].whole(1)
    _check_sizes(of_group, "size")
    check_total(spec["replicas"], whole(spec["replicas"].value, 1) * whole(of_group["size"].value, 1))
    _admit_template(of_group["workerTemplate"])
    if of_group["leaderTemplate"].value is not None:
        _admit_template(of_group["leaderTemplate"])


def _warn_of_leader_worker_set(root: ManifestField) -> None:
    """Warn of what the operator does and the local cluster does not."""
    annotations = root["metadata"]["annotations"]
    for name, unit in _EXCLUSIVE.items():
        if annotations[name].value:
            annotations[name].warn(f"{annotations[name].path} is not implemented: {unit} may share a topology domain")
    templates = root["spec"]["leaderWorkerTemplate"]["volumeClaimTemplates"]
    if templates.items():
        templates.warn(f"{templates.path} is not implemented: pods get neither these claims nor volumes of them")


def _admit_job_set(spec: ManifestField) -> None:
    spec["replicatedJobs"].some_items("at least one replicated job")
    names = set[str]()
    total = 0
    for replicated in spec["replicatedJobs"].items():
        replicated.mapping("a replicated job")
        replicated["name"].own_label(names, "replicated job")
        _check_sizes(replicated, "replicas")
        replicated["template"]["metadata"].check_metadata()
        job = replicated["template"]["spec"]
        job.mapping("the spec of a Job")
        _check_sizes(job, "parallelism", "completions")
        total += whole(replicated["replicas"].value, 1) * max(1, whole(job["parallelism"].value, 1))
        _admit_template(job["template"])
    check_total(spec["replicatedJobs"], total)


def _admit_notebook(spec: ManifestField) -> None:
    _admit_template(spec["template"])


_ADMISSIONS = {
    "RayCluster": _admit_ray_cluster,
    "RayJob": _admit_ray_job,
    "RayService": _admit_ray_service,
    "LeaderWorkerSet": _admit_leader_worker_set,
    "JobSet": _admit_job_set,
    "Notebook": _admit_notebook,
}


def _admit_template(template: ManifestField) -> None:
    """Check a pod template. Raises RequestError."""
    template.mapping("a pod template")
    template["metadata"].check_metadata()
    for field in ("containers", "initContainers"):
        for container in template["spec"][field].items():
            container["env"].items()
    # The copy is checked and dropped: defaults are filled in for each pod.
    spec = template["spec"]
    admit_pod_spec(spec.holding(copied(spec.value)))


def _check_sizes(holder: ManifestField, *names: str) -> None:
    """Check optional numbers of pods."""
    for name in names:
        if holder[name].value is not None:
            at_most_max(holder[name])
