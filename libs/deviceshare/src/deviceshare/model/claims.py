"""Claims: the decisions, by node. The ledger holds them, the binder executes them.

A claim names devices, not annotations: the annotations are a pure function of the claim and the time of binding
(:meth:`deviceshare.families.Family.annotations`).
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

WHOLE = -1
"""Memory of a grant that takes a whole card of unknown size."""

INIT, SIDECAR = "init", "sidecar"
"""Values of ``stage`` of a grant, besides '' for one of ``spec.containers``."""

UNMADE = "unmade"
"""``made`` of a device that the device plugin has yet to make."""


# gc=False: there are many grants, and none can be part of a reference cycle.
class DeviceGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One device given to one container: ``memory`` MiB charged, ``cores`` percent or AI cores."""

    id: str
    index: int
    memory: int
    cores: int
    detail: str = ""
    """Data of the family: a MIG group and position, a vNPU template."""
    asked: int = -1
    """Requested MiB if the instance or the template is larger; -1: as charged."""
    made: str = ""
    """The device that the device plugin made for a bound pod, as the plugin names it; ``UNMADE`` until it is made; ''
    before the pod is bound, and for families whose plugin makes no devices."""


class ContainerGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The devices of one family that one container gets.

    ``position`` is the index in ``spec.containers``, or in ``spec.initContainers`` if ``stage`` is ``init`` or
    ``sidecar``. An init container ends before the others start, so a device is charged the larger of its largest init
    container and the sum of all others, including sidecars.
    """

    container: str
    position: int
    family: str
    devices: tuple[DeviceGrant, ...]
    stage: str = ""


def with_made(grants: Sequence[ContainerGrant], held: Sequence[ContainerGrant]) -> tuple[ContainerGrant, ...]:
    """Return the grants with the field ``made`` of ``held``, which is read from the bound pod.

    All other fields of ``held`` are ignored, since the owner of a pod can write its annotations.
    """
    made = {
        (grant.family, grant.position, grant.stage, device.id): device.made
        for grant in held
        for device in grant.devices
        if device.made
    }
    if not made:
        return tuple(grants)
    return tuple(
        replace(
            grant,
            devices=tuple(
                replace(device, made=made.get((grant.family, grant.position, grant.stage, device.id), device.made))
                for device in grant.devices
            ),
        )
        for grant in grants
    )


class HostPort(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A port of the node that a pod listens on; ``ip`` is ``0.0.0.0`` for all addresses of the node."""

    ip: str
    protocol: str
    port: int


class Tenant(msgspec.Struct, frozen=True, array_like=True):
    """The properties of a pod by which other pods may refuse to share a card with it.

    ``group`` is the key of its PodGroup, '' if it has none; ``labels`` are its labels that exclusive rules may name.
    """

    group: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod's node and devices. The claim holds devices and resources until it leaves the ledger."""

    id: str
    """Unique per attempt, so that the outcome of an old attempt never applies to a new one."""
    uid: str
    namespace: str
    name: str
    group: str = ""
    decided_by: str = ""
    decided_at: float = 0.0
    grants: tuple[ContainerGrant, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    """Resources of the node that the pod uses: CPU in millicores, memory in bytes, others."""
    ports: tuple[HostPort, ...] = ()
    """Ports of the node that the pod listens on."""
    counted: tuple[tuple[str, int], ...] = ()
    """Amounts for scores besides ``resources`` (:func:`deviceshare.allocation.counted`)."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the pod that exclusive rules named at the time of the decision."""
    withdraw: bool = False
    """Set by placement to request the withdrawal of the claim."""


class NodeLedger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All claims on one node: the one message under the node's subject in LEDGER."""

    v: int = 1
    node: str
    claims: tuple[Claim, ...] = ()


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The result of one claim: ``bound``, ``refused`` (with the reason) or ``withdrawn``."""

    claim: str
    uid: str
    state: str
    reason: str = ""
    at: float = 0.0


class NodeOutcomes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcomes of the claims on one node: the one message under the node's subject in OUTCOME.

    An outcome stays as long as its claim is in the ledger.
    """

    v: int = 1
    node: str
    outcomes: tuple[Outcome, ...] = ()


BOUND = "bound"
REFUSED = "refused"
WITHDRAWN = "withdrawn"
