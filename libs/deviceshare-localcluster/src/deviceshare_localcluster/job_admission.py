"""The checks and defaults of Volcano's webhooks for Jobs.

Source: volcano-sh/volcano pkg/webhooks/admission/jobs and the schema of the Job's CRD.
"""

from typing import Any

from deviceshare_localcluster.checks import ManifestField
from deviceshare_localcluster.job_plugins import FRAMEWORKS, PLUGINS
from deviceshare_localcluster.owned_objects import copied
from deviceshare_localcluster.pod_admission import admit_pod_spec
from deviceshare_localcluster.pod_bounds import at_most_max, check_total

_EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
_ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)


def admit_job(job: ManifestField) -> None:
    """Check a Job and fill in its defaults, in place. Raises RequestError."""
    spec = job.ensured("spec")
    values = spec.value
    spec["tasks"].some_items("at least one task with replicas and a template")
    if not spec["queue"].optional_text():
        values["queue"] = "default"
    spec["queue"].name()
    if not spec["schedulerName"].optional_text():
        values["schedulerName"] = "volcano"
    spec["priorityClassName"].optional_text()
    if spec["ttlSecondsAfterFinished"].value is not None:
        spec["ttlSecondsAfterFinished"].warn("spec.ttlSecondsAfterFinished is not played by the local cluster")
    if spec["minSuccess"].value is not None:
        spec["minSuccess"].whole(1)
    values["maxRetry"] = spec["maxRetry"].otherwise(3).whole()
    names: set[str] = set()
    for index, task in enumerate(spec["tasks"].items()):
        _admit_task(task, index, job["metadata"]["name"].value, names)
    _admit_min_available(spec)
    _admit_depends_on(spec)
    _admit_policies(spec)
    _admit_plugins(spec)
    _admit_volumes(spec)
    state = job.ensured("status").ensured("state")
    if not state["phase"].optional_text():
        state.value["phase"] = "Pending"


def _admit_task(task: ManifestField, index: int, job_name: str, names: set[str]) -> None:
    values = task.mapping("a task with replicas and a template")
    if not task["name"].optional_text():
        values["name"] = f"default{index}"
    name = task["name"].own_label(names, "task of the Job")
    values.setdefault("replicas", 0)
    replicas = at_most_max(task["replicas"])
    if replicas == 0:
        task["replicas"].warn(f"{task.path}.replicas is 0: task {name} makes no pods")
    if task["minAvailable"].value is None:
        values["minAvailable"] = _min_of_partitions(task["partitionPolicy"].optional_mapping(), replicas)
    if task["minAvailable"].whole() > replicas:
        raise task["minAvailable"].error(f"at most the task's replicas, which are {replicas}")
    values["maxRetry"] = task["maxRetry"].otherwise(3).whole()
    pod_name = f"{job_name}-{name}-{index}"
    if len(pod_name) > 63:
        raise task["name"].error(f"a shorter one: {pod_name} would be the name of a pod, with more than 63 characters")
    template = task["template"]
    template.optional_mapping()
    metadata = template["metadata"]
    metadata.optional_mapping()
    metadata["labels"].check_labels()
    metadata["annotations"].texts()
    # The copy is checked and dropped: defaults are filled in for each pod.
    spec = template["spec"]
    admit_pod_spec(spec.holding(copied(spec.value)))


def _min_of_partitions(policy: dict[str, Any], replicas: int) -> int:
    """Return the default of a task's minAvailable: by its partition policy, else its replicas."""
    partitions: int = policy.get("minPartitions") or 0
    return partitions * int(policy.get("partitionSize") or 0) if partitions > 0 else replicas


def _admit_min_available(spec: ManifestField) -> None:
    tasks = spec.value["tasks"]
    total = sum(task["replicas"] for task in tasks)
    check_total(spec["tasks"], total)
    minimum = spec["minAvailable"].otherwise(0).whole()
    if minimum > total:
        raise spec["minAvailable"].error(f"at most the sum of the tasks' replicas, which is {total}")
    spec.value["minAvailable"] = minimum or sum(task["minAvailable"] for task in tasks)


def _admit_depends_on(spec: ManifestField) -> None:
    names = [task["name"] for task in spec.value["tasks"]]
    for task in spec["tasks"].items():
        task["dependsOn"].optional_mapping()
        place = task["dependsOn"]["name"]
        for other in place.items():
            if other.value not in names or other.value == task.value["name"]:
                raise place.holding(other.value).error(f"the name of another task: {', '.join(names)}")
            other.warn(f"{place.path} is not implemented: all tasks get their pods immediately")


def _admit_policies(spec: ManifestField) -> None:
    for policies in (spec["policies"], *(task["policies"] for task in spec["tasks"].items())):
        seen: set[str] = set()
        for policy in policies.items():
            given = policy.mapping()
            events = [given["event"]] if given.get("event") else []
            events += [each.value for each in policy["events"].items()]
            if not events and given.get("exitCode") is None:
                raise policy.error("an event or an exitCode, and an action")
            for event in events:
                if policy["event"].holding(event).choice(_EVENTS) in seen:
                    raise policy["event"].holding(event).error("an event that no other policy of the list has")
            seen |= set(events)
            policy["action"].choice(_ACTIONS)
            causes = [f"on {event}" for event in events] or [f"with exit code {given['exitCode']}"]
            policy.warn(f"{policy.path} is not played by the local cluster: {given['action']} {', '.join(causes)}")


def _admit_plugins(spec: ManifestField) -> None:
    plugins = spec["plugins"]
    values = plugins.optional_mapping()
    known = (*PLUGINS, *FRAMEWORKS)
    for name in list(values):
        plugins.holding(name).choice(known)
        for argument in plugins[name].items():
            argument.text()
        for needed in FRAMEWORKS.get(name, ()):
            values.setdefault(needed, [])
        if name in FRAMEWORKS:
            plugins[name].warn(f"{spec.path}.plugins[{name}] is not implemented: its variables are omitted")


def _admit_volumes(spec: ManifestField) -> None:
    paths: set[str] = set()
    for volume in spec["volumes"].items():
        given = volume.mapping()
        path = volume["mountPath"].text()
        if path in paths:
            raise volume["mountPath"].error("a path that no other volume of the Job has")
        paths.add(path)
        if bool(given.get("volumeClaimName")) == bool(given.get("volumeClaim")):
            raise volume.error("either volumeClaimName, for a claim that exists, or volumeClaim, for a new one")
