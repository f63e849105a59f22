"""The JSON API as types: the service encodes them, the command decodes them.

==============================================  ==========================
``/api/v1/nodes``                               ``Items[Node]``
``/api/v1/devices``                             ``Items[Device]``
``/api/v1/drivers``                             ``Items[DriverDevices]``
``/api/v1/pods``                                ``Items[Pod]``
``/api/v1/claims``                              ``Items[Claim]``
``/api/v1/pods/{namespace}/{name}/explain``     :class:`PodExplanation`
``/api/v1/status``                              :class:`ClusterStatus`
any error                                       :class:`ErrorAnswer`
==============================================  ==========================

Lists take the filters of :data:`deviceshare_metrics.listing.FILTERS` and, in parts, ``limit`` and ``continue``. What
the dashboard needs more is in :mod:`deviceshare_metrics.api_dashboard`.

Units: MiB of device memory, percent of a card's cores (or AI cores), unix seconds; resources as in
:data:`deviceshare.model.Resources`.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, Literal, TypeVar, get_args

import msgspec
from deviceshare.model import ContainerGrant, DeviceClaim, Explanation, Resources
from msgspec.structs import force_setattr

PodState = Literal["Pending", "Claimed", "Bound", "Gated", "Ended", "OtherScheduler"]
ClaimState = Literal["open", "bound", "refused", "withdrawn", "withdrawing"]
ResourceClaimState = Literal["pending", "allocated", "reserved"]
NodeState = Literal["ready", "not_ready", "unschedulable"]
LifeStageName = Literal["seen", "queued", "decided", "claimed", "handed_over", "bound"]
StageState = Literal["done", "current", "open"]

WAITING: tuple[PodState, ...] = ("Pending", "Gated", "OtherScheduler")
"""States of pods that wait for a place."""
POD_STATES: tuple[PodState, ...] = get_args(PodState)
CLAIM_STATES: tuple[ClaimState, ...] = get_args(ClaimState)
NODE_STATES: tuple[NodeState, ...] = get_args(NodeState)
RESOURCE_CLAIM_STATES: tuple[ResourceClaimState, ...] = get_args(ResourceClaimState)
LIFE_STAGES: tuple[LifeStageName, ...] = get_args(LifeStageName)

MAX_WHOLE = 256
"""Cards of one pod, or node, and resource that are listed of a plain number."""
WHOLE = "whole"
"""The mode of these cards: a pod gets whole ones."""

T = TypeVar("T")


class Items(msgspec.Struct, Generic[T], frozen=True):
    """A list, in the order of its names; ``next`` (JSON: ``continue``) asks for the rest of it, '' if there is none."""

    items: tuple[T, ...]
    next: str = msgspec.field(default="", name="continue")


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node; ``used`` are the resources of its claims and bound pods, ``pods`` is their number.

    ``used`` has each resource in ``allocatable`` by which cards are requested: what is used of the cards, in its unit.
    """

    name: str
    ready: bool
    unschedulable: bool
    allocatable: Resources
    used: Resources
    pods: int
    cards: int
    problems: tuple[str, ...]


class Cordon(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who keeps a card from getting pods, why, and since when (RFC 3339); '' where it is not known."""

    by: str
    reason: str
    since: str

    def __str__(self) -> str:
        """Return a text such as ``by alice since 2026-01-02T03:04:05Z: fan is broken``."""
        parts = [f"{word} {value}" for word, value in (("by", self.by), ("since", self.since)) if value]
        return " ".join(parts) + (f": {self.reason}" if parts and self.reason else self.reason)


class Device(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A card and its usage.

    ``slots_used`` counts shares, ``pods`` (``namespace/name``) names each pod once. ``cores_total`` is 0 on MIG cards,
    where cores have no meaning. ``largest_free`` is the largest share that a pod could get: MiB, or cores if the card
    has no memory; 0 if it is unhealthy or cordoned, or has no slots or cores left. ``cordon``: None unless the card
    is cordoned (``deviceshare cordon card``). ``owners`` are those of the pods, each once, as ``namespace/Kind/name``;
    of a pod without an owner it is the pod.
    """

    node: str
    id: str
    index: int
    type: str
    mode: str
    healthy: bool
    memory_total: int
    memory_used: int
    cores_total: int
    cores_used: int
    slots_total: int
    slots_used: int
    largest_free: int = 0
    cordon: Cordon | None = None
    pods: tuple[str, ...]
    owners: tuple[str, ...] = ()


class DriverDevices(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The devices that a driver publishes in ResourceSlices for a node, and what ResourceClaims have of them.

    ``node``: '' for devices that several nodes may use. ``devices``: as many as are published, also partitions that
    exclude each other. ``allocated``: those that claims have, also by other schedulers, but not access of
    administrators; ``classes``: by the DeviceClass of the request, ``unknown`` for one that does not exist. A device
    that claims share counts once. ``pods`` (``namespace/name``): for which these claims are reserved.
    """

    driver: str
    node: str
    devices: int
    allocated: int
    classes: dict[str, int]
    pods: tuple[str, ...]


class PodDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A device of a container.

    ``id`` is the name of the device plugin: UUID, ``UUID[group-position]`` for a MIG instance, index for gpu-share.
    ``memory`` is 0 if a whole card is allocated that is no longer registered. A card that the device plugin offers as a
    plain number has the resource (``nvidia.com/gpu``) as its id, and no container. A device of a ResourceClaim has
    ``driver/pool/device`` as its id, the name of the claim, and no container.
    """

    container: str
    id: str
    memory: int
    cores: int
    claim: str = ""


class PodCard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a pod holds of a card: containers that run in turn, such as init containers, count once.

    ``part``: of the card's memory, or of its cores where it has no memory. Cards that are a plain number are one entry,
    with the resource as ``id``, their number as ``part``, and no memory. ``memory`` in MiB.
    """

    id: str
    type: str
    part: float
    memory: int


class ContainerResources(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a container of a pod requests."""

    container: str
    resources: Resources


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod; ``reason`` is the reason why it is pending, if known, or how the volumes of a claimed pod are bound first.

    ``reason_at``: as of when the reason is true, unix seconds; 0: now, or there is none.

    ``devices`` are those of its containers and ResourceClaims, ``cards`` what it holds of registered ones, and of plain
    numbers. ``resource_claims`` are the names of its ResourceClaims.

    The state ``OtherScheduler``: it waits, requests devices, and its ``spec.schedulerName`` is not served.

    ``node`` is where it is claimed or bound; ``nominated_node`` is where pods are evicted for the waiting pod, else ''.
    ``queue`` is the queue of its PodGroup, else its own. ``created`` is its creation (0: unknown), and
    ``waiting_since`` the same while it waits, else null. ``terminating``: it is being deleted;
    ``refused``: it waits, and its request is invalid, so that no change of the cluster helps.
    ``request``: what its containers request, init containers first. ``owner``: its controller, else its first owner, as
    ``Kind/name``, '' if it has none.
    ``status`` is the state as users know it of kubectl: ``Terminating`` and ``Nominated`` go before the state itself.
    ``fragmented``: the model of cards of which enough is free for it in sum, but not on one node or card; '' if it
    waits for something else as well.
    """

    namespace: str
    name: str
    uid: str
    scheduler: str
    node: str | None
    nominated_node: str = ""
    state: PodState
    refused: bool = False
    fragmented: str = ""
    terminating: bool = False
    created: float = 0.0
    waiting_since: float | None = None
    priority: int = 0
    owner: str = ""
    request: tuple[ContainerResources, ...] = ()
    devices: tuple[PodDevice, ...]
    resource_claims: tuple[str, ...] = ()
    cards: tuple[PodCard, ...] = ()
    reason: str | None
    reason_at: float = 0.0
    queue: str
    group: str
    problems: tuple[str, ...]
    status: str = ""

    def __post_init__(self) -> None:
        """Set the status, which follows from the other fields."""
        leaves = self.terminating and self.state != "Ended"
        force_setattr(self, "status", "Terminating" if leaves else "Nominated" if self.nominated_node else self.state)

    @property
    def held_by(self) -> str:
        """Who holds what the pod holds: its owner, or itself if it has none, as ``namespace/Kind/name``."""
        return holder(self.namespace, self.name, self.owner)


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A claim in the ledger; ``open`` and ``withdrawing`` ones have no outcome yet."""

    id: str
    uid: str
    namespace: str
    name: str
    node: str
    state: ClaimState
    reason: str
    devices: tuple[PodDevice, ...]
    decided_by: str
    decided_at: float


class PodStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step in the life of a pod: the service, the step and its time."""

    time: float
    service: str
    step: str
    node: str
    message: str


class LifeStage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stage of the life cycle of a pod; ``at`` is 0 if its time is not known."""

    name: LifeStageName
    at: float
    state: StageState


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of a waiting pod in its queue, from 1, of so many jobs, and how many pods the jobs before it have.

    A job: the waiting pods of a PodGroup, or one pod without a PodGroup. Those that do not fit are passed over.
    """

    position: int
    jobs: int
    pods_before: int
    higher_before: bool = False
    """Whether a job before it has a higher priority."""

    def __str__(self) -> str:
        """Return a text such as ``position 3 of 12, behind 5 pods``."""
        behind = f", behind {self.pods_before} pod{'s' if self.pods_before > 1 else ''}" if self.pods_before else ""
        return f"position {self.position} of {self.jobs}{behind}"


class StartTime(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When a waiting pod starts, unix seconds: some 80 % of such ranges are right. Or why there is ``no_estimate``.

    ``at``: the time of the estimate, for readers whose clock may be another one.
    """

    at: float | None = None
    earliest: float | None = None
    latest: float | None = None
    no_estimate: str = ""


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a pod (null if it is gone), the last decision, its steps, its trace id (32 hex digits).

    ``position``: where it is in its queue, null if it is in none. ``start``: when it starts, null if it does not wait.
    """

    pod: Pod | None
    explanation: Explanation | None
    steps: tuple[PodStep, ...]
    trace_id: str
    life: tuple[LifeStage, ...] = ()
    position: QueuePosition | None = None
    start: StartTime | None = None


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, and the time since the last change.

    ``open_claims`` have no outcome yet; ``undecodable`` counts messages in quarantine, ``problems`` counts invalid
    fields of objects; ``synced``: inventory has published the whole cluster once.
    """

    pods: dict[PodState, int]
    claims: dict[ClaimState, int]
    nodes: dict[NodeState, int]
    open_claims: int
    undecodable: int
    problems: int
    synced: bool
    seconds_since_change: float


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An error, in one sentence."""

    error: str


def holder(namespace: str, name: str, owner: str) -> str:
    """Return the owner ``Kind/name`` of a pod, or the pod if it has none, as ``namespace/Kind/name``."""
    return f"{namespace}/{owner or f'Pod/{name}'}"


def is_whole(resource: str) -> bool:
    """Return whether a resource is a plain number of cards, which pods get whole (``nvidia.com/gpu``)."""
    return resource.endswith("/gpu")


def whole_cards(resources: Iterable[tuple[str, int]], grants: Sequence[ContainerGrant] = ()) -> tuple[PodDevice, ...]:
    """Return the cards that a pod with these resources gets as a plain number; kubelet chooses them.

    With ``grants`` of cards that are shared under the resource the number is that of shares, which are listed by
    themselves.
    """
    plain = [(resource, number) for resource, number in resources if is_whole(resource)]
    if plain and grants:
        # Takes long to import: commands read this module.
        from deviceshare.families import grants_share_whole

        if grants_share_whole(grants):
            return ()
    return tuple(
        PodDevice(container="", id=resource, memory=0, cores=100)
        for resource, number in plain
        for _ in range(min(number, MAX_WHOLE))
    )


def claim_device(claim: str, device: tuple[str, str, str]) -> PodDevice:
    """Return a device of a ResourceClaim: driver, pool and name."""
    return PodDevice(container="", id="/".join(device), memory=0, cores=0, claim=claim)


def decided_devices(claims: Iterable[DeviceClaim]) -> tuple[PodDevice, ...]:
    """Return the devices that were decided for ResourceClaims."""
    return tuple(claim_device(each.key.partition("/")[2], device.id) for each in claims for device in each.results)
