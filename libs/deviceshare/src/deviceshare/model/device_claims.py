"""ResourceClaims of pods, and the devices that a decision gives to them."""

import msgspec


class PodDeviceClaim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ResourceClaim of a pod (``spec.resourceClaims``)."""

    name: str
    """Its name within the pod."""
    claim: str = ""
    """``namespace/name``; '' as long as the claim of ``template`` is not made."""
    template: str = ""
    """The ResourceClaimTemplate of which it is made, or ''."""


class DeviceResult(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A device for a request of a ResourceClaim (``DeviceRequestAllocationResult`` of ``resource.k8s.io/v1``)."""

    request: str
    """The request; of an alternative ``request/alternative``."""
    driver: str
    pool: str
    device: str
    shared: bool = False
    """Whether it is a share of the device, with an id of its own."""
    consumed: tuple[tuple[str, str], ...] = ()
    """What the share consumes, by capacity: quantities."""
    admin: bool = False
    """Whether it is access for administrators, which uses nothing."""

    @property
    def id(self) -> tuple[str, str, str]:
        """Driver, pool and name of the device."""
        return self.driver, self.pool, self.device


class ClaimRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ResourceClaim of a waiting pod, as far as it decides on which nodes the pod can run."""

    devices: str = ""
    """What it asks for (``spec.devices`` in JSON), '' if it has devices already."""
    claim: str = ""
    """``namespace/name`` of a claim that other pods may use as well, or that has devices; '': it is the pod's alone."""
    obstacle: str = ""
    """Why it can be used on no node, or ''."""


class DeviceClaim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ResourceClaim of a pod that was placed."""

    key: str
    """``namespace/name``."""
    uid: str = ""
    results: tuple[DeviceResult, ...] = ()
    """The devices that were chosen; (): it had devices before, or another pod of the same decision has chosen them."""
    node: str = ""
    """The only node on which these devices can be used, '' for several."""
