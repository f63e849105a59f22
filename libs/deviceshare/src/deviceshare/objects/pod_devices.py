"""Decoding of the ResourceClaims of pods."""

from collections.abc import Iterable

import msgspec

from deviceshare.model import PodDeviceClaim
from deviceshare.objects.pod_views import PodClaim, PodClaimStatus, PodSpec, TemplateSpec

_CLAIMS = msgspec.json.Decoder(list[PodClaim] | None)


def device_claims(
    spec: PodSpec | TemplateSpec, statuses: Iterable[PodClaimStatus], namespace: str
) -> tuple[PodDeviceClaim, ...]:
    """Return the ResourceClaims of a pod, not those that its status says are not needed.

    ``statuses``: the claims that were made of templates. Source: Name of the package
    resourceclaim of k8s.io/dynamic-resource-allocation.
    """
    views = spec.resource_claims if isinstance(spec, PodSpec) else _CLAIMS.decode(spec.resource_claims)
    if not views:
        return ()
    made = {status.name: status.resource_claim_name for status in statuses}
    found = []
    for view in views:
        template = view.resource_claim_template_name or ""
        if template and view.name in made and made[view.name] is None:
            continue
        claim = (made.get(view.name) if template else view.resource_claim_name) or ""
        found.append(PodDeviceClaim(view.name or "", claim and f"{namespace}/{claim}", template))
    return tuple(found)
