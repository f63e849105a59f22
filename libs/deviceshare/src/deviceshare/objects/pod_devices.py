"""Decoding of the ResourceClaims of pods, where pods with ResourceClaims are placed."""

import msgspec

from deviceshare.model import PodDeviceClaim

MAX_DEVICE_CLAIMS = 32
"""ResourceClaims of a pod."""
_LONGEST_NAME = 253


class _Claim(msgspec.Struct, rename="camel"):
    """``spec.resourceClaims[]``."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Made(msgspec.Struct, rename="camel"):
    """``status.resourceClaimStatuses[]``."""

    name: str
    resource_claim_name: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    resource_claims: list[_Claim] = []


class _Status(msgspec.Struct, rename="camel"):
    resource_claim_statuses: list[_Made] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec
    status: _Status | None = None


_POD = msgspec.json.Decoder(_Pod)


def decode_device_claims(raw: bytes, namespace: str) -> tuple[PodDeviceClaim, ...]:
    """Return the ResourceClaims of a pod in JSON, each once, without those that its status says are not needed.

    None of a pod with more than :data:`MAX_DEVICE_CLAIMS`, or with one that cannot be read: it is refused, since its
    ResourceClaims are not evaluated. Source: Name of the package resourceclaim of k8s.io/dynamic-resource-allocation.
    """
    try:
        pod = _POD.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    views = pod.spec.resource_claims
    if len(views) > MAX_DEVICE_CLAIMS:
        return ()
    statuses = (pod.status.resource_claim_statuses if pod.status is not None else None) or ()
    made = {status.name: status.resource_claim_name for status in statuses}
    found: list[PodDeviceClaim] = []
    for view in views:
        template = view.resource_claim_template_name or ""
        if template and view.name in made and made[view.name] is None:
            continue
        claim = (made.get(view.name) if template else view.resource_claim_name) or ""
        if max(map(len, (view.name, template, claim))) > _LONGEST_NAME or not (template or claim):
            return ()
        key = claim and f"{namespace}/{claim}"
        if not key or all(each.claim != key for each in found):
            found.append(PodDeviceClaim(view.name, key, template))
    return tuple(found)
