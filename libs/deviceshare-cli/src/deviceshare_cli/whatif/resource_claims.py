"""The ResourceClaims of candidates: of the cluster, of the files, and those that would be made of templates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from deviceshare.model import DEVICE_CLAIMS, DeviceClaimFact, DeviceFact, FormatError, Now, PodFact
from deviceshare.objects.devices import (
    decode_device_claim,
    decode_device_class,
    decode_device_slice,
    decode_device_taint_rule,
)
from deviceshare.scheduler import Scheduler
from deviceshare_bus.messages.subjects import subject_of
from deviceshare_cluster.interface import Object
from msgspec.structs import replace

from deviceshare_cli.errors import NotAllowedError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.reading.kinds import DEVICE_TAINT_RULES
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.whatif.manifests import CLAIM, TEMPLATE, Candidate, Files

_DECODERS: Mapping[str, Callable[[bytes], DeviceFact]] = {
    "DeviceClass": decode_device_class,
    DEVICE_TAINT_RULES.kind: decode_device_taint_rule,
    "ResourceSlice": decode_device_slice,
    CLAIM: decode_device_claim,
}


async def device_objects(reader: Reader, candidates: Sequence[Candidate]) -> dict[str, list[Object]]:
    """Return the cluster's objects of devices by kind, none if no candidate uses ResourceClaims.

    They are read from the cluster: the bus has them only while pods of the cluster use ResourceClaims. A role that was
    made for a version without DeviceTaintRules does not permit to list these: then there are none, with a warning.
    """
    if all(DEVICE_CLAIMS not in pod.ask.unsupported for each in candidates for pod in each.pods):
        return {}
    found: dict[str, list[Object]] = {}
    for kind in (*_DECODERS, TEMPLATE):
        try:
            found[kind] = await reader.objects(kind)
        except NotAllowedError as error:
            if kind != DEVICE_TAINT_RULES.kind:
                raise
            needed = f"it needs the permission to list {DEVICE_TAINT_RULES.qualified}: {error}"
            to_stderr(f"Warning: no device counts as tainted by a {kind}: {needed}")
            found[kind] = []
    return found


def with_resource_claims(
    files: Files, objects: Mapping[str, Iterable[Object]], scheduler: Scheduler, now: float
) -> list[Candidate]:
    """Let a scheduler know the objects of the cluster and of the files; return candidates with claims of templates.

    Pods stay refused where the configuration does not place pods with ResourceClaims.
    """
    if not objects or not scheduler.conf.dra:
        return [
            each._replace(pods=tuple(replace(pod, device_claims=()) for pod in each.pods)) for each in files.candidates
        ]
    for kind, decode in _DECODERS.items():
        for obj in (*objects[kind], *(each for each in files.objects if each["kind"] == kind)):
            try:
                fact = decode(msgspec.json.encode(obj))
            except FormatError as error:
                to_stderr(f"Warning: {error}")
                continue
            for problem in getattr(fact, "problems", ()):
                to_stderr(f"Warning: {problem}")
            scheduler.apply(subject_of(fact), fact, Now(now, now))
    every = (*objects[TEMPLATE], *(each for each in files.objects if each["kind"] == TEMPLATE))
    templates = {_key(each["metadata"]): each for each in every}
    return [_with_claims(each, templates) for each in files.candidates]


def _with_claims(candidate: Candidate, templates: Mapping[str, Object]) -> Candidate:
    claims: list[DeviceClaimFact] = []
    pods = []
    for pod in candidate.pods:
        made = dict(_made(pod, templates))
        claims += made.values()
        uses = (replace(each, claim=made[each.name].key) if each.name in made else each for each in pod.device_claims)
        pods.append(replace(pod, device_claims=tuple(uses)))
    return candidate._replace(pods=tuple(pods), claims=tuple(claims))


def _made(pod: PodFact, templates: Mapping[str, Object]) -> Iterator[tuple[str, DeviceClaimFact]]:
    """Yield the claims that the controller of ResourceClaims would make for a pod, by their names within it.

    They are named by the uid of the pod, which no ResourceClaim of the cluster or of the files is named by.
    """
    for each in pod.device_claims:
        template = templates.get(f"{pod.namespace}/{each.template}") if each.template else None
        if template is not None:
            metadata = {
                "namespace": pod.namespace,
                "name": f"{pod.uid}-{each.name}",
                "uid": f"{pod.uid}-{each.name}",
                "ownerReferences": [{"uid": pod.uid, "controller": True}],
            }
            obj = {"metadata": metadata, "spec": template["spec"].get("spec") or {}}
            yield each.name, decode_device_claim(msgspec.json.encode(obj))
        elif each.template:
            missing = f"{TEMPLATE} {pod.namespace}/{each.template}"
            to_stderr(f"Warning: {missing} is neither in the cluster nor in the files")


def _key(metadata: Mapping[str, str]) -> str:
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
