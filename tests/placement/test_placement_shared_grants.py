"""What a bound pod holds by its fact differs from its claim's grants in indexes at most: that is no room for others."""

from deviceshare.model import ContainerGrant
from msgspec.structs import replace
from support.builders import pod, vgpu
from support.played import Played


def as_wire(held: tuple[ContainerGrant, ...]) -> tuple[ContainerGrant, ...]:
    """Return grants as inventory reads them of annotations, which name no indices."""
    return tuple(replace(grant, devices=tuple(replace(device, index=-1) for device in grant.devices)) for grant in held)


def test_no_group_is_retried_after_a_later_fact_of_a_bound_pod_without_a_claim() -> None:
    played = Played()
    played.put(pod("p", vgpu(1, 40)))
    out = played.decided()
    (claim,) = out.claims
    bound = pod("p", vgpu(1, 40), node="a", held=as_wire(claim.grants), signed=True)
    played.put(bound)
    played.put(pod("late", vgpu(3, 30)))
    assert "attempts:unschedulable" in played.decided(1.0).counts
    played.ledger("a", 100)  # the claim is gone, its pod stays
    played.decided(1.0)
    played.put(pod("p", vgpu(1, 40), node="a", held=as_wire(claim.grants), signed=True, revision="9"))
    assert "attempts:unschedulable" not in played.decided(1.0).counts
