"""What Volcano's webhooks check of a Job, and the defaults that they fill in.

Source: volcano-sh/volcano pkg/webhooks/admission/jobs and the schema of the Job's CRD.
"""

from typing import Any

import msgspec

from deviceshare_cluster.interface import Object
from deviceshare_cluster.local.checks import At
from deviceshare_cluster.local.job_plugins import FRAMEWORKS, PLUGINS
from deviceshare_cluster.local.pod_admission import admit_pod_spec

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


def admit_job(job: Object, at: At, warnings: list[str]) -> None:
    """Check a Job and fill in its defaults, in place. Raises RequestError."""
    spec = at["spec"].mapping(job.get("spec"))
    job["spec"] = spec
    at = at["spec"]
    if not at["tasks"].items(spec.get("tasks")):
        raise at["tasks"].error(spec.get("tasks"), "at least one task with replicas and a template")
    if not at["queue"].optional_text(spec.get("queue")):
        spec["queue"] = "default"
    at["queue"].name(spec["queue"])
    if not at["schedulerName"].optional_text(spec.get("schedulerName")):
        spec["schedulerName"] = "volcano"
    at["priorityClassName"].optional_text(spec.get("priorityClassName"))
    spec["maxRetry"] = at["maxRetry"].whole(spec.get("maxRetry") or 3)
    names: set[str] = set()
    for index, task in enumerate(spec["tasks"]):
        _admit_task(task, index, job, at["tasks"][index], names, warnings)
    _admit_min_available(spec, at)
    _admit_depends_on(spec, at, warnings)
    _admit_policies(spec, at)
    _admit_plugins(spec, at, warnings)
    _admit_volumes(spec, at)


def _admit_task(task: Any, index: int, job: Object, at: At, names: set[str], warnings: list[str]) -> None:
    if not isinstance(task, dict):
        raise at.error(task, "a task with replicas and a template")
    if not at["name"].optional_text(task.get("name")):
        task["name"] = f"default{index}"
    name = at["name"].label(task["name"])
    if name in names:
        raise at["name"].error(name, "a name that no other task of the Job has")
    names.add(name)
    replicas = at["replicas"].whole(task.setdefault("replicas", 0))
    if replicas == 0:
        warnings.append(f"{at.subject}: {at.path}.replicas is 0: task {name} makes no pods")
    if task.get("minAvailable") is None:
        task["minAvailable"] = _least_of_partitions(
            at["partitionPolicy"].mapping(task.get("partitionPolicy")), replicas
        )
    least = at["minAvailable"].whole(task["minAvailable"])
    if least > replicas:
        raise at["minAvailable"].error(least, f"at most the task's replicas, which are {replicas}")
    task["maxRetry"] = at["maxRetry"].whole(task.get("maxRetry") or 3)
    pod_name = f"{job['metadata']['name']}-{name}-{index}"
    if len(pod_name) > 63:
        raise at["name"].error(
            name, f"a shorter one: {pod_name} would be the name of a pod, with more than 63 characters"
        )
    template = at["template"].mapping(task.get("template"))
    metadata = at["template"]["metadata"].mapping(template.get("metadata"))
    at["template"]["metadata"]["labels"].labels(metadata.get("labels"))
    at["template"]["metadata"]["annotations"].texts(metadata.get("annotations"))
    # Checked, not changed: the defaults belong to each pod.
    admit_pod_spec(msgspec.json.decode(msgspec.json.encode(template.get("spec"))), at["template"]["spec"], warnings)


def _least_of_partitions(policy: dict[str, Any], replicas: int) -> int:
    """Return how many pods a task has at least that says so of its partitions only, if it does."""
    least: int = policy.get("minPartitions") or 0
    return least * int(policy.get("partitionSize") or 0) if least > 0 else replicas


def _admit_min_available(spec: dict[str, Any], at: At) -> None:
    total = sum(task["replicas"] for task in spec["tasks"])
    least = at["minAvailable"].whole(spec.get("minAvailable") or 0)
    if least > total:
        raise at["minAvailable"].error(least, f"at most the sum of the tasks' replicas, which is {total}")
    spec["minAvailable"] = least or sum(task["minAvailable"] for task in spec["tasks"])


def _admit_depends_on(spec: dict[str, Any], at: At, warnings: list[str]) -> None:
    names = [task["name"] for task in spec["tasks"]]
    for index, task in enumerate(spec["tasks"]):
        place = at["tasks"][index]["dependsOn"]
        given = place.mapping(task.get("dependsOn"))
        place = place["name"]
        for other in place.items(given.get("name")):
            if other not in names or other == task["name"]:
                raise place.error(other, f"the name of another task: {', '.join(names)}")
            warnings.append(f"{at.subject}: {place.path} is not played here: all tasks get their pods at once")


def _admit_policies(spec: dict[str, Any], at: At) -> None:
    places = [(at["policies"], spec.get("policies"))]
    places += [(at["tasks"][index]["policies"], task.get("policies")) for index, task in enumerate(spec["tasks"])]
    for place, policies in places:
        seen: set[str] = set()
        for index, policy in enumerate(place.items(policies)):
            one = place[index].entry(policy)
            events = [*([one["event"]] if one.get("event") else []), *place[index]["events"].items(one.get("events"))]
            if not events and one.get("exitCode") is None:
                raise place[index].error(one, "an event or an exitCode, and an action")
            for event in events:
                if event not in _EVENTS:
                    raise place[index]["event"].error(event, f"one of {', '.join(_EVENTS)}")
                if event in seen:
                    raise place[index]["event"].error(event, "an event that no other policy of the list has")
            seen |= set(events)
            if one.get("action") not in _ACTIONS:
                raise place[index]["action"].error(one.get("action"), f"one of {', '.join(_ACTIONS)}")


def _admit_plugins(spec: dict[str, Any], at: At, warnings: list[str]) -> None:
    plugins = at["plugins"].mapping(spec.get("plugins"))
    known = (*PLUGINS, *FRAMEWORKS)
    for name in list(plugins):
        if name not in known:
            raise at["plugins"].error(name, f"one of {', '.join(known)}")
        for index, argument in enumerate(at["plugins"][name].items(plugins[name])):
            at["plugins"][name][index].text(argument)
        for needed in FRAMEWORKS.get(name, ()):
            plugins.setdefault(needed, [])
        if name in FRAMEWORKS:
            warnings.append(f"{at.subject}: {at.path}.plugins[{name}] is not played here: its variables are left out")


def _admit_volumes(spec: dict[str, Any], at: At) -> None:
    paths: set[str] = set()
    for index, volume in enumerate(at["volumes"].items(spec.get("volumes"))):
        place = at["volumes"][index]
        path = place["mountPath"].text(place.entry(volume).get("mountPath"))
        if path in paths:
            raise place["mountPath"].error(path, "a path that no other volume of the Job has")
        paths.add(path)
        if bool(volume.get("volumeClaimName")) == bool(volume.get("volumeClaim")):
            raise place.error(volume, "either volumeClaimName, for a claim that exists, or volumeClaim, for a new one")
