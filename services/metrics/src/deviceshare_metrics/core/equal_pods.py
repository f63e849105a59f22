"""The kind of equal pods: what decides when a waiting pod can start, as far as this service knows it. Pure.

Names that pods do not share say nothing about it: those of PersistentVolumeClaims, disks, ResourceClaims and PodGroups.
Where the volumes are is not known here.
"""

from hashlib import blake2b

from deviceshare.model import PodGroupFact, PodRequest
from deviceshare_bus.messages.subjects import fact
from msgspec.msgpack import encode
from msgspec.structs import replace

from deviceshare_metrics.core.claimed_devices import ResourceClaimSeen
from deviceshare_metrics.core.facts import PodSeen, decoded_request
from deviceshare_metrics.core.state_store import StateStore


def kind_of(store: StateStore, pod: PodSeen) -> bytes:
    """Return a digest of a pod's kind: equal pods of one namespace have the same."""
    group = store.groups.get(fact("podgroup", pod.group))
    claims = [
        decisive(store.device_claims.get(fact("deviceclaim", each.claim))) or each.template
        for each in pod.device_claims
    ]
    of_group = decisive(group) if group is not None else (pod.queue,)
    request = decoded_request(pod.ask)
    asked = pod.ask if request is None else _without_names(request)
    return blake2b(encode((asked, claims, pod.priority, of_group)), digest_size=16).digest()


def decisive(changed: object) -> tuple[object, ...]:
    """Return what of a PodGroup or ResourceClaim decides on the kind of its pods; () of all else."""
    match changed:
        case PodGroupFact():
            return changed.queue, changed.priority_class, changed.min_member
        case ResourceClaimSeen():
            return (changed.request,)
    return ()


def sources_of(pod: PodSeen) -> list[str]:
    """Return the subjects of the PodGroup and the ResourceClaims of a pod, which decide on its kind as well."""
    return [fact("podgroup", pod.group), *(fact("deviceclaim", each.claim) for each in pod.device_claims if each.claim)]


def _without_names(request: PodRequest) -> tuple[PodRequest, int, list[bool], bool]:
    bare = replace(request, volumes=(), disks=(), apart_group="", unsupported=request.unevaluated)
    return bare, len(request.volumes), [each.read_only for each in request.disks], bool(request.apart_group)
