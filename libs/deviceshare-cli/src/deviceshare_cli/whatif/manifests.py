"""The pods of manifests, as the API server and the controllers of Jobs would create them."""

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from deviceshare.model import DeviceshareError, GroupKey, InputError, PodFact, PodGroupFact
from deviceshare.objects import decode_pod, decode_podgroup
from deviceshare_cluster.interface import Object
from deviceshare_cluster.local import Manifest
from deviceshare_cluster.local.admission import SYSTEM_PRIORITIES, Priorities, admit
from deviceshare_cluster.local.jobs import companion_objects, pod_maker, pod_names
from msgspec.structs import replace

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read
from deviceshare_cli.pods import other_schedulers


class Candidate(NamedTuple):
    """A Pod, or a Job with its PodGroup and pods, as facts; ``warnings`` are about its manifest."""

    title: str
    group: PodGroupFact | None
    pods: tuple[PodFact, ...]
    warnings: tuple[str, ...]

    def copy(self, number: int) -> "Candidate":
        """Return another one with other names and uids."""
        if not number:
            return self
        suffix = f"-{number + 1}"
        group = None
        if self.group is not None:
            group = replace(self.group, key=GroupKey(f"{self.group.key}{suffix}"), uid=f"{self.group.uid}{suffix}")
        pods = []
        for pod in self.pods:
            uid = f"{pod.uid}{suffix}"
            key = f"pod/{uid}" if group is None else group.key
            pods.append(replace(pod, uid=uid, name=f"{pod.name}{suffix}", group=GroupKey(key)))
        return Candidate(f"{self.title}{suffix}", group, tuple(pods), ())


def candidates(paths: Sequence[str], classes: Sequence[Object], served: Sequence[str]) -> list[Candidate]:
    """Return the Pods and Jobs of files; ``classes`` are the cluster's PriorityClasses.

    Raises CommandError for an invalid manifest, one of another kind, or none.
    """
    manifests, problems = read(paths)
    if problems:
        raise CommandError("; ".join(map(str, problems)))
    values = {each["metadata"]["name"]: each["value"] for each in classes}
    default = max((each["value"] for each in classes if each.get("globalDefault")), default=0)
    priorities = Priorities(SYSTEM_PRIORITIES | values, default)
    found = []
    for manifest in manifests:
        kind = manifest.object.get("kind")
        if kind not in ("Pod", "Job"):
            raise CommandError(f"{manifest.origin.locate('kind')}: fit takes Pods and Volcano's Jobs, not {kind}")
        others = tuple(manifest.located(field, text) for field, text in other_schedulers(manifest.object, served))
        try:
            candidate = _candidate(manifest.object, priorities)
        except InputError as error:
            raise CommandError(manifest.located(error.problem.field, str(error))) from None
        except (DeviceshareError, msgspec.MsgspecError) as error:
            raise CommandError(str(error)) from None
        found.append(candidate._replace(warnings=(*others, *_with_nodes(manifest))))
    if not found:
        raise CommandError("no Pod or Job is in the files")
    return found


def _candidate(manifest: Object, priorities: Priorities) -> Candidate:
    """Return the facts of a manifest. Raises InputError."""
    obj = _admitted(manifest, priorities)
    metadata = obj["metadata"]
    title = f"{obj['kind']} {metadata['namespace']}/{metadata['name']}"
    if obj["kind"] == "Pod":
        return Candidate(title, None, (_waiting(obj),), ())
    (group, *_) = companion_objects(obj, priorities.values)
    fact = decode_podgroup(msgspec.json.encode(_admitted(group, priorities)))
    pods = tuple(replace(_waiting(_admitted(pod, priorities)), group=fact.key) for pod in _pods_of(obj))
    # The admission of a group by minResources is not part of the question: it depends on what else waits.
    return Candidate(title, replace(fact, admitted=True), pods, ())


def _pods_of(job: Object) -> Iterator[Object]:
    for _, task, index in pod_names(job):
        yield pod_maker(job, task)(index)


def _admitted(obj: Object, priorities: Priorities) -> Object:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return admit(obj, uid=f"fit-{uuid.uuid4()}", now=now, priorities=priorities).object


def _waiting(pod: Object) -> PodFact:
    """Return the fact of a pod that has no node yet, and is not part of an existing PodGroup.

    A pod with ``spec.nodeName`` fits only on this node.
    """
    without_uid = {key: value for key, value in pod["metadata"].items() if key != "uid"} | {
        "uid": f"fit-{uuid.uuid4()}"
    }
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    if node := pod["spec"].get("nodeName"):
        spec["affinity"] = _only_on(node, spec.get("affinity") or {})
    fact = decode_pod(msgspec.json.encode({**pod, "metadata": without_uid, "spec": spec, "status": {}}))
    return replace(fact, group=GroupKey(f"pod/{fact.uid}"), held=())


def _only_on(node: str, affinity: Object) -> Object:
    """Return an affinity that also requires a node."""
    kind, required = "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    of_nodes = affinity.get(kind) or {}
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), name]}
        for term in (of_nodes.get(required) or {}).get("nodeSelectorTerms") or [{}]
    ]
    return {**affinity, kind: {**of_nodes, required: {"nodeSelectorTerms": terms}}}


def _with_nodes(manifest: Manifest) -> Iterator[str]:
    """Yield a warning about each ``spec.nodeName`` of a valid manifest."""
    spec = manifest.object["spec"]
    specs = {"spec": spec}
    if manifest.object["kind"] == "Job":
        specs = {
            f"spec.tasks[{at}].template.spec": (task.get("template") or {}).get("spec") or {}
            for at, task in enumerate(spec.get("tasks") or ())
        }
    for field, each in specs.items():
        if node := each.get("nodeName"):
            text = f"spec.nodeName is {node}: the pod would get no devices without a scheduler; only {node} is checked"
            yield manifest.located(f"{field}.nodeName", text)
