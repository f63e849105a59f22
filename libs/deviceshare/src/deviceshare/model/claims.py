"""Claims: decisions by node. The ledger stores them, the binder executes them.

A claim names devices, not annotations: the annotations are a pure function of the claim and of the time of binding
(:meth:`deviceshare.families.Family.annotations`).
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import force_setattr, replace

from deviceshare.model.bounded import Amount, Real
from deviceshare.model.device_claims import DeviceClaim
from deviceshare.model.pod_topology import PodTopology
from deviceshare.model.requirements import Labels
from deviceshare.model.volumes import Disk, VolumeBinding, VolumeUse

WHOLE = -1
"""Memory of a grant for a whole card of unknown size."""


INIT, SIDECAR = "init", "sidecar"
"""Values of ``ContainerGrant.stage``; '' for ``spec.containers``."""

UNMADE = "unmade"


# gc=False: there are many instances, and none can be part of a reference cycle.
class DeviceGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One device granted to one container: ``memory`` charged in MiB, ``cores`` in percent or AI cores."""

    id: str
    index: Amount
    memory: Amount
    cores: Amount
    detail: str = ""
    """Family-specific data: a MIG group and position, or a vNPU template."""
    asked: Amount = -1
    """Requested MiB if more is charged because the instance or template is larger; -1: as charged."""
    made: str = ""
    """The device that the device plugin created for a bound pod, as the plugin reports it; ``UNMADE`` until then; ''
    before binding, and if the plugin creates none."""


class ContainerGrant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The devices of one family granted to one container; ``position`` is its index in ``spec.containers``.

    For stages ``init`` and ``sidecar`` it is the index in ``spec.initContainers``. Init containers run before the other
    containers, so a device is charged the maximum of its largest init container and the sum of all others, including
    sidecars.
    """

    container: str
    position: Amount
    family: str
    devices: tuple[DeviceGrant, ...]
    stage: str = ""


def with_made(grants: Sequence[ContainerGrant], held: Sequence[ContainerGrant]) -> tuple[ContainerGrant, ...]:
    """Return the grants with ``made`` from the devices that the bound pod's annotations name.

    Ignores everything else in ``held``: the pod's owner can write its annotations.
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


class HostPort(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A host port of a pod; ``ip`` is ``0.0.0.0`` for all addresses of the node."""

    ip: str
    protocol: str
    port: Amount


class Tenant(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """The holder of devices, as seen by exclusion rules and by the inter-pod constraints of other pods.

    ``group``: the key of its PodGroup, or ''; ``labels``: the labels that rules and selectors may name; ``topology``:
    its own inter-pod constraints; ``volumes`` and ``disks``: the claims and disks that it uses; ``bindings``: how
    those of its claims are bound that are not bound yet.
    """

    group: str = ""
    labels: Labels = ()
    namespace: str = ""
    terminating: bool = False
    topology: PodTopology | None = None
    volumes: tuple[VolumeUse, ...] = ()
    disks: tuple[Disk, ...] = ()
    bindings: tuple[VolumeBinding, ...] = ()
    devices: tuple[DeviceClaim, ...] = ()


class Choice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a pod was placed on its node: what :func:`deviceshare.families.explain_claim` needs beside the claim.

    The score and the configuration are those at the time of the decision.
    """

    nodes: Amount = 0
    """The number of nodes."""
    feasible: Amount = 0
    """The number of nodes that fit the pod."""
    policy: str = ""
    """The policy that scored the node by its cards, '' for none."""
    weight: Amount = 0
    """The weight of the policy."""
    score: float = 0.0
    """The score of the cards, before weighting; like ``weighted_score`` only to be shown."""
    plugins: tuple[str, ...] = ()
    """The plugins whose scores are part of ``weighted_score``."""
    weighted_score: float = 0.0
    fit: Amount = 0
    """The number of pods of the gang that fit."""
    minimum: Amount = 0
    """The gang's minimum, 0 or 1 for a single pod."""
    short: tuple[tuple[str, Amount, Amount], ...] = ()
    """The tasks of the gang below their minimum: how many pods fit and are needed."""
    queue: str = ""
    """The queue that the pod names, if it was placed from another one, its PodGroup's."""
    caveats: tuple[str, ...] = ()
    """Annotations that were interpreted leniently, and doubtful amounts."""
    policy_of: str = ""
    """What set the policy for nodes: ``Pod``, ``PodGroup``, ``Queue``; '' for the configuration."""
    card_policy: str | None = None
    """The policy that chose the cards; None: ``policy``, as it was set."""
    card_policy_of: str = ""
    """What set it, as ``policy_of``."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The placement of one pod on one node. Holds devices and resources until it is removed from the ledger."""

    id: str
    """Unique for each attempt, so that an outcome belongs to exactly one attempt."""
    uid: str
    namespace: str
    name: str
    group: str = ""
    queue: str = ""
    """The queue in which it was placed."""
    decided_by: str = ""
    decided_at: Real = 0.0
    seen_at: Real = 0.0
    """Unix seconds at which placement first saw the pod."""
    sent_at: Real = 0.0
    """Unix seconds at which its ledger was sent to the bus; 0 if placement exports no traces."""
    grants: tuple[ContainerGrant, ...] = ()
    resources: tuple[tuple[str, Amount], ...] = ()
    """Allocated node resources: CPU (millicores), memory (bytes) and others."""
    ports: tuple[HostPort, ...] = ()
    """Host ports of the pod."""
    counted: tuple[tuple[str, Amount], ...] = ()
    """Amounts that nodes count in addition to ``resources``: for scores, and of device resources as kubelet counts them
    (:func:`deviceshare.allocation.counted`)."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the pod that an exclusion rule named at the time of the decision."""
    volumes: tuple[VolumeUse, ...] = ()
    """The PersistentVolumeClaims that the pod uses."""
    bindings: tuple[VolumeBinding, ...] = ()
    """How those of them are bound that were not bound at the time of the decision; the binder does it first."""
    devices: tuple[DeviceClaim, ...] = ()
    """The ResourceClaims of the pod, with the devices that the binder allocates to them first."""
    choice: Choice | None = None
    """Why it was placed on this node; None in claims of earlier versions, whose explanations are on EXPLAIN."""
    withdraw: bool = False
    """Set by placement to request the withdrawal of the claim by the binder."""
    waits_for: tuple[str, ...] = ()
    """The uids of the pods that have to go first, on whatever node. The claim is nominated until placement empties
    this: its pod is not bound before, and its room is that which these pods leave."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A pod of the node that has to go for a nominated claim. It is written in the same batch as that claim."""

    uid: str
    namespace: str
    name: str
    claim: str
    """The claim for which it goes, on this node or another one; with ``uid`` it identifies the outcome."""
    preemptor: str
    """The pod of this claim, ``namespace/name``."""
    action: str
    """The configured action that decided it: ``preempt`` or ``reclaim``."""
    queue: str = ""
    """The queue of the pod that has to go."""
    owner: tuple[str, str] = ("", "")
    """The kind and ``namespace/name`` of what the pod is counted for: its Volcano Job, else its PodGroup."""
    decided_at: Real = 0.0
    """Unix seconds."""
    go: bool = False
    """Whether the pod is to be evicted: all pods that the claim waits for may go. Until then the binder only asks the
    cluster whether this one may."""


WAITING_VERSION = 2
"""The version of a ledger with evictions, or with claims that wait or have devices of ResourceClaims. A service that
knows none would bind such a claim at once, or drop what it does not know when it rewrites the ledger; a message of a
later version pauses the node."""


class NodeLedger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All claims on one node: the message under the node's subject in LEDGER."""

    v: int = 1
    """Always :data:`WAITING_VERSION` with what that is for, else 1, whatever it is given of these two."""
    node: str
    claims: tuple[Claim, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    """Pods on this node that have to go, each for one claim. Each stays until it is gone or placement withdraws it."""
    gone: bool = False
    """Whether the node is gone: the message has no claims and no evictions, and expires."""

    def __post_init__(self) -> None:
        if self.v in (1, WAITING_VERSION):
            waiting = self.evictions or any(claim.waits_for or claim.devices for claim in self.claims)
            force_setattr(self, "v", WAITING_VERSION if waiting else 1)

    def sent(self, at: float) -> "NodeLedger":
        """Return the ledger whose new claims are sent ``at`` (unix seconds)."""
        if all(claim.sent_at for claim in self.claims):
            return self
        claims = tuple(claim if claim.sent_at else replace(claim, sent_at=at) for claim in self.claims)
        return replace(self, claims=claims)


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outcome of one claim: ``bound``, ``refused`` (with a reason) or ``withdrawn``.

    Or of one eviction: ``may go``, or with a reason ``blocked`` or ``forbidden``: the cluster permits no such request.
    """

    claim: str
    uid: str
    """Of the pod of the claim; of an eviction that of the pod that has to go."""
    state: str
    reason: str = ""
    at: Real = 0.0


class NodeOutcomes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outcomes of the claims on one node: the message under the node's subject in OUTCOME.

    An outcome is kept as long as its claim, or its eviction, is in the node's ledger.
    """

    v: int = 1
    node: str
    outcomes: tuple[Outcome, ...] = ()
    gone: bool = False
    """Whether the node is gone: the message has no outcomes, and expires."""


BOUND = "bound"
REFUSED = "refused"
WITHDRAWN = "withdrawn"
MAY_GO = "may go"
BLOCKED = "blocked"
FORBIDDEN = "forbidden"
