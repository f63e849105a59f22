"""The ResourceClaims of a pod."""

import json
from typing import Any

import pytest
from deviceshare.model import PodDeviceClaim
from deviceshare.objects import decode_device_claims, decode_pod


def read(claims: Any, statuses: Any = None) -> tuple[PodDeviceClaim, ...]:
    return decode_device_claims(encoded(claims, statuses), "ml")


def encoded(claims: Any, statuses: Any = None) -> bytes:
    obj = {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": claims},
        "status": {"resourceClaimStatuses": statuses},
    }
    return json.dumps(obj).encode()


def own(number: int) -> list[dict[str, str]]:
    return [{"name": f"c{at}", "resourceClaimName": f"claim-{at}"} for at in range(number)]


def test_resource_claims_of_a_pod() -> None:
    """Its own claims, those that were made of templates, one that is not made yet, and one that is not needed."""
    claims = [
        {"name": "own", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "waits", "resourceClaimTemplateName": "t"},
        {"name": "unneeded", "resourceClaimTemplateName": "t"},
        {"name": "again", "resourceClaimName": "shared"},
    ]
    assert read(claims, [{"name": "made", "resourceClaimName": "p-made-x"}, {"name": "unneeded"}]) == (
        PodDeviceClaim("own", "ml/shared"),
        PodDeviceClaim("made", "ml/p-made-x", "t"),
        PodDeviceClaim("waits", "", "t"),
    )


@pytest.mark.parametrize(
    "claims",
    [own(33), ["a"], [{"name": "a"}], [{"name": 3, "resourceClaimName": "x"}], [{"name": "a" * 254}], "a", [None]],
)
def test_a_pod_with_too_many_or_unreadable_claims_has_none_and_is_refused(claims: Any) -> None:
    assert len(read(own(32))) == 32
    assert read(claims) == ()
    if isinstance(claims, list):
        assert decode_pod(encoded(claims)).ask.unevaluated == ("spec.resourceClaims",)
