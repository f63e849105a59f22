"""The pods of manifests, as the API server and the controllers of Jobs would create them."""

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from deviceshare.model import DeviceClaimFact, DeviceshareError, GroupKey, InputError, PodFact, PodGroupFact
from deviceshare.objects import decode_device_claims, decode_pod, decode_podgroup
from deviceshare_cluster.interface import Object
from deviceshare_localcluster import Manifest
from deviceshare_localcluster.admission import Priorities, admit, priorities_of
from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.kinds import KINDS
from deviceshare_localcluster.workloads import WORKLOADS, all_objects, pod_template_paths
from msgspec.structs import replace

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read
from deviceshare_cli.pods import other_schedulers

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
_WORKLOADS = tuple(KINDS[name].kind for name in WORKLOADS)


class Candidate(NamedTuple):
    """A Pod, or the pods of a workload that belong together, as facts; ``warnings`` are about its manifest.

    ``claims``: the ResourceClaims of its pods alone.
    """

    title: str
    group: PodGroupFact | None
    pods: tuple[PodFact, ...]
    warnings: tuple[str, ...]
    claims: tuple[DeviceClaimFact, ...] = ()

    def copy(self, number: int) -> "Candidate":
        """Return another one with other names and uids."""
        if not number:
            return self
        suffix = f"-{number + 1}"
        group = None
        if self.group is not None:
            group = replace(self.group, key=GroupKey(f"{self.group.key}{suffix}"), uid=f"{self.group.uid}{suffix}")
        pods, own = [], {each.key for each in self.claims}
        for pod in self.pods:
            uid = f"{pod.uid}{suffix}"
            key = f"pod/{uid}" if group is None else group.key
            uses = tuple(
                replace(each, claim=f"{each.claim}{suffix}") if each.claim in own else each
                for each in pod.device_claims
            )
            pods.append(replace(pod, uid=uid, name=f"{pod.name}{suffix}", group=GroupKey(key), device_claims=uses))
        claims = (
            replace(each, key=f"{each.key}{suffix}", uid=f"{each.uid}{suffix}", owner=f"{each.owner}{suffix}")
            for each in self.claims
        )
        return Candidate(f"{self.title}{suffix}", group, tuple(pods), (), tuple(claims))


class Files(NamedTuple):
    """What files ask about; ``objects``: their ResourceClaims and the templates of these."""

    candidates: list[Candidate]
    objects: list[Object]


def read_files(paths: Sequence[str], classes: Sequence[Object], served: Sequence[str]) -> Files:
    """Return the pods of the Pods and workloads of files; ``classes`` are the cluster's PriorityClasses.

    Raises CommandError for an invalid manifest, one of another kind, or none.
    """
    manifests, problems = read(paths)
    if problems:
        raise CommandError("; ".join(map(str, problems)))
    priorities = priorities_of(classes)
    found, objects = [], []
    for manifest in manifests:
        kind = manifest.object.get("kind")
        if kind not in ("Pod", CLAIM, TEMPLATE, *_WORKLOADS):
            shown = ", ".join(dict.fromkeys(_WORKLOADS))
            text = f"fit takes Pods, workloads ({shown}), {CLAIM}s and {TEMPLATE}s, not {kind}"
            raise CommandError(f"{manifest.origin.locate('kind')}: {text}")
        others = tuple(manifest.located(field, text) for field, text in other_schedulers(manifest.object, served))
        try:
            if kind in (CLAIM, TEMPLATE):
                objects.append(_admitted(manifest.object, priorities))
                continue
            of_manifest = _candidates(manifest.object, priorities)
        except InputError as error:
            raise CommandError(manifest.located(error.problem.field, str(error))) from None
        except (DeviceshareError, msgspec.MsgspecError) as error:
            raise CommandError(str(error)) from None
        first, *rest = of_manifest or [Candidate("", None, (), ())]
        found += [first._replace(warnings=(*others, *node_warnings(manifest))), *rest]
    if not any(candidate.pods for candidate in found):
        raise CommandError("no pods are in the files")
    return Files(found, objects)


def _candidates(manifest: Object, priorities: Priorities) -> list[Candidate]:
    """Return the facts of a manifest: a candidate for each PodGroup, and one for each other pod. Raises InputError."""
    obj = _admitted(manifest, priorities)
    metadata = obj["metadata"]
    title = f"{obj['kind']} {metadata['namespace']}/{metadata['name']}"
    if obj["kind"] == "Pod":
        return [Candidate(title, None, (_waiting(obj),), ())]
    groups: dict[str, PodGroupFact] = {}
    members: dict[str, list[PodFact]] = {}
    found = []
    for each in all_objects(obj, priorities.values, lambda one: _admitted(one, priorities)):
        name = each["metadata"]["name"]
        if each["kind"] == "PodGroup":
            # The admission of a group by minResources is not part of the question: it depends on what else waits.
            groups[name] = replace(decode_podgroup(msgspec.json.encode(each)), admitted=True)
            continue
        if each["kind"] != "Pod":
            continue  # its claims do not exist yet, and are not evaluated
        group = (each["metadata"].get("annotations") or {}).get(GROUP_ANNOTATION)
        if group in groups:
            members.setdefault(group, []).append(replace(_waiting(each), group=groups[group].key))
        else:
            found.append(Candidate(title, None, (_waiting(each),), ()))
    return [Candidate(title, groups[name], tuple(pods), ()) for name, pods in members.items()] + found


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
        spec["affinity"] = only_on(node, spec.get("affinity") or {})
    raw = msgspec.json.encode({**pod, "metadata": without_uid, "spec": spec, "status": {}})
    fact = decode_pod(raw)
    uses = decode_device_claims(raw, fact.namespace)
    return replace(fact, group=GroupKey(f"pod/{fact.uid}"), held=(), device_claims=uses)


def only_on(node: str, affinity: Object) -> Object:
    """Return an affinity that also requires a node."""
    kind, required = "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    of_nodes = affinity.get(kind) or {}
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), name]}
        for term in (of_nodes.get(required) or {}).get("nodeSelectorTerms") or [{}]
    ]
    return {**affinity, kind: {**of_nodes, required: {"nodeSelectorTerms": terms}}}


def node_warnings(manifest: Manifest) -> Iterator[str]:
    """Yield a warning about each ``spec.nodeName`` of a valid manifest."""
    paths: list[tuple[str | int, ...]] = [()]
    if manifest.object["kind"] != "Pod":
        paths = list(pod_template_paths(manifest.object))
    for path in paths:
        place: Any = manifest.object
        for step in path:
            place = place[step]
        if node := (place.get("spec") or {}).get("nodeName"):
            field = "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*path, "spec", "nodeName")
            )
            text = f"spec.nodeName is {node}: the pod would get no devices without a scheduler; only {node} is checked"
            yield manifest.located(field.removeprefix("."), text)
