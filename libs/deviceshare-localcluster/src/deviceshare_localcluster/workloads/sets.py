"""LeaderWorkerSet and JobSet.

Source: kubernetes-sigs/lws pkg/controllers, pkg/webhooks and pkg/schedulerprovider/volcano_provider.go,
kubernetes-sigs/jobset pkg/controllers/jobset_controller.go. A LeaderWorkerSet owns its pods itself here, without the
StatefulSets between them, and a new template replaces all groups at once. Of a JobSet, the policies for success,
failure and start are not played.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.kinds import KUBERNETES_JOB
from deviceshare_localcluster.names import template_hash
from deviceshare_localcluster.owned_objects import child, copied
from deviceshare_localcluster.workloads.apps import CONTROLLER_HASH, POD_INDEX, POD_NAME
from deviceshare_localcluster.workloads.kubeflow import least_resources
from deviceshare_localcluster.workloads.model import Desired, Owned, PodState, pod_of, whole, with_metadata
from deviceshare_localcluster.workloads.owner_groups import QUEUE_NAME, SCHEDULERS

_LWS = "leaderworkerset.sigs.k8s.io"
_JOBSET = "jobset.sigs.k8s.io"
_NO_RESTART = "None"
_WITH_LEADER = "LeaderReady"


def leader_worker_set(obj: Object, owned: Owned) -> Desired:
    """Return the pods of all groups of a LeaderWorkerSet, and a PodGroup for each; a group restarts as a whole."""
    spec, metadata = obj["spec"], obj["metadata"]
    of_group = spec["leaderWorkerTemplate"]
    leader = of_group.get("leaderTemplate") or of_group["workerTemplate"]
    revision = template_hash({"leader": leader, "worker": of_group["workerTemplate"]})
    pods, groups = [], []
    for index in range(whole(spec.get("replicas"), 1)):
        name = f"{metadata['name']}-{index}"
        if leader["spec"].get("schedulerName") in SCHEDULERS:
            groups.append(_group_of(obj, leader["spec"], f"{name}-{revision}"))
        states = {each: pod for each, pod in owned.pods.items() if each == name or each.startswith(f"{name}-")}
        if not _restarts(states, f"{metadata['name']}-{revision}", of_group.get("restartPolicy")):
            pods += _group_pods(obj, index, revision, states)
    return Desired(pods, groups)


def _restarts(states: Mapping[str, PodState], revision: str, policy: str | None) -> bool:
    """Return whether a group's pods are to be deleted, and created again."""
    failed = policy != _NO_RESTART and any(pod.phase == "Failed" for pod in states.values())
    return failed or any(pod.revision not in ("", revision) for pod in states.values())


def _group_pods(obj: Object, index: int, revision: str, states: Mapping[str, PodState]) -> list[Object]:
    spec, metadata = obj["spec"], obj["metadata"]
    of_group = spec["leaderWorkerTemplate"]
    leader = f"{metadata['name']}-{index}"
    workers = whole(of_group.get("size"), 1) - 1
    if spec.get("startupPolicy") == _WITH_LEADER and (leader not in states or states[leader].phase != "Running"):
        workers = 0
    found = []
    for number in range(workers + 1):
        name = f"{leader}-{number}" if number else leader
        template = (None if number else of_group.get("leaderTemplate")) or of_group["workerTemplate"]
        labels = {
            f"{_LWS}/name": metadata["name"],
            f"{_LWS}/group-index": str(index),
            f"{_LWS}/worker-index": str(number),
            f"{_LWS}/group-key": _sha1(f"{metadata['namespace']}/{leader}"),
            f"{_LWS}/template-revision-hash": revision,
            CONTROLLER_HASH: f"{metadata['name']}-{revision}",
            POD_NAME: name,
            POD_INDEX: str(number or index),
        }
        annotations = {f"{_LWS}/size": str(whole(of_group.get("size"), 1))}
        if number:
            annotations[f"{_LWS}/leader-name"] = leader
        if template["spec"].get("schedulerName") in SCHEDULERS:
            annotations[GROUP_ANNOTATION] = f"{leader}-{revision}"
        pod = pod_of(obj, template, name, labels, annotations)
        pod["spec"] |= {"hostname": name, "subdomain": metadata["name"]}
        found.append(pod)
    return found


def _group_of(obj: Object, leader: Mapping[str, Any], name: str) -> Object:
    """Return the PodGroup of one group: all of its pods, or its leader where the workers start after it."""
    spec = obj["spec"]
    of_group = spec["leaderWorkerTemplate"]
    size = whole(of_group.get("size"), 1)
    needs = least_resources([(leader, 1), (of_group["workerTemplate"]["spec"], size - 1)], size)
    found: dict[str, Any] = {"minMember": 1 if spec.get("startupPolicy") == _WITH_LEADER else size}
    found["minResources"] = needs
    if queue := (obj["metadata"].get("annotations") or {}).get(QUEUE_NAME):
        found["queue"] = queue
    return child(obj, "PodGroup", name, found)


def job_set(obj: Object, _: Owned) -> Desired:
    """Return the Jobs of a JobSet."""
    spec, metadata = obj["spec"], obj["metadata"]
    total = sum(whole(each.get("replicas"), 1) for each in spec["replicatedJobs"])
    jobs: list[Object] = []
    for replicated in spec["replicatedJobs"]:
        for index in range(whole(replicated.get("replicas"), 1)):
            name = f"{metadata['name']}-{replicated['name']}-{index}"
            marks = {
                f"{_JOBSET}/jobset-name": metadata["name"],
                f"{_JOBSET}/replicatedjob-name": replicated["name"],
                f"{_JOBSET}/restart-attempt": "0",
                f"{_JOBSET}/replicatedjob-replicas": str(whole(replicated.get("replicas"), 1)),
                f"{_JOBSET}/global-replicas": str(total),
                f"{_JOBSET}/job-index": str(index),
                f"{_JOBSET}/job-key": _sha1(f"{metadata['namespace']}/{name}"),
                f"{_JOBSET}/job-global-index": str(len(jobs)),
            }
            jobs.append(_job(obj, replicated["template"], name, marks))
    return Desired(updated=jobs)


def _job(obj: Object, given: Mapping[str, Any], name: str, marks: Mapping[str, str]) -> Object:
    template = with_metadata(given, marks, marks)
    spec = copied(template["spec"])
    spec["template"] = with_metadata(spec["template"], marks, marks)
    spec.setdefault("completionMode", "Indexed")
    spec.setdefault("completions", whole(spec.get("parallelism"), 1))
    spec["suspend"] = bool(obj["spec"].get("suspend"))
    network = obj["spec"].get("network") or {}
    if network.get("enableDNSHostnames", True):
        spec["template"]["spec"]["subdomain"] = network.get("subdomain") or obj["metadata"]["name"]
    spec["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    metadata = template["metadata"]
    return child(obj, KUBERNETES_JOB, name, spec, labels=metadata["labels"], annotations=metadata["annotations"])


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
