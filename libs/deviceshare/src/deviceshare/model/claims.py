"""Claims: what has been decided, node by node. The ledger holds them, the binder carries them out.

A claim names the devices, not the annotations: those are a pure function of the claim and of the moment of binding
(:meth:`deviceshare.families.Family.annotations`).
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

WHOLE = -1
"""Memory of a grant that takes all of a card whose size the writer did not know."""


INIT, SIDECAR = "init", "sidecar"
"""What ``stage`` of a grant may be, beside '' for one of ``spec.containers``."""

UNMADE = "unmade"


# There are many, and none can be part of a cycle: the garbage collector need not know them.
class DeviceGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One device given to one container: ``memory`` MiB charged, ``cores`` percent or AI cores."""

    id: str
    index: int
    memory: int
    cores: int
    detail: str = ""
    """What a family needs beside: a MIG group and position, a vNPU template."""
    asked: int = -1
    """MiB that the container asked, where more is charged: the instance or the template is larger. -1: as charged."""
    made: str = ""
    """What the device plugin says of the device that it made for a bound pod, ``UNMADE`` while it has made none; ''
    where it makes none, and before the pod is bound."""


class ContainerGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The devices of one family given to one container; ``position`` is its index in ``spec.containers``.

    Where ``stage`` is ``init`` or ``sidecar`` it is the index in ``spec.initContainers``. An init container has the
    devices before the others have them, so a device is charged the larger of its largest init container and the sum
    of all others, sidecars among them.
    """

    container: str
    position: int
    family: str
    devices: tuple[DeviceGrant, ...]
    stage: str = ""


def with_made(grants: Sequence[ContainerGrant], held: Sequence[ContainerGrant]) -> tuple[ContainerGrant, ...]:
    """Return the grants with what device plugins say of them in what the bound pod holds.

    Nothing else of it counts: a pod's annotations can be written by its owner.
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
    """A port of the node itself that a pod listens on; ``ip`` is ``0.0.0.0`` for every address of the node."""

    ip: str
    protocol: str
    port: int


class Tenant(msgspec.Struct, frozen=True, array_like=True):
    """Who holds devices, as far as others may not want to share a card with it.

    ``group`` is the key of its PodGroup, '' where it has none; ``labels`` are those that a rule of exclusion may name.
    """

    group: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod's place on one node. Holds its devices and resources until it leaves the ledger."""

    id: str
    """New for each attempt, so that the outcome of an old attempt is never taken for that of a new one."""
    uid: str
    namespace: str
    name: str
    group: str = ""
    decided_by: str = ""
    decided_at: float = 0.0
    grants: tuple[ContainerGrant, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    """CPU (millicores), memory (bytes) and other resources of the node that it takes."""
    ports: tuple[HostPort, ...] = ()
    """Ports of the node that it listens on."""
    counted: tuple[tuple[str, int], ...] = ()
    """What scores count beside ``resources`` (:func:`deviceshare.allocation.counted`)."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the pod that a rule of exclusion named when it was decided."""
    withdraw: bool = False
    """Set by placement to ask the binder for the claim back."""


class NodeLedger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All claims on one node: the one message under the node's subject in LEDGER."""

    v: int = 1
    node: str
    claims: tuple[Claim, ...] = ()


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of one claim: ``bound``, ``refused`` (with the reason) or ``withdrawn``."""

    claim: str
    uid: str
    state: str
    reason: str = ""
    at: float = 0.0


class NodeOutcomes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcomes of the claims on one node: the one message under the node's subject in OUTCOME.

    An outcome stays as long as its claim stands in the ledger.
    """

    v: int = 1
    node: str
    outcomes: tuple[Outcome, ...] = ()


BOUND = "bound"
REFUSED = "refused"
WITHDRAWN = "withdrawn"
