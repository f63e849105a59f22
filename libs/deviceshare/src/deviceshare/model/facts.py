"""Typed facts, decoded from Kubernetes objects: nodes and pods; the others are in :mod:`.cluster_facts`.

Inventory publishes them, all other services read them. A fact contains only what decisions and user views need, so
kubelet heartbeats change no fact. Units: MiB of device memory, percent of a card's cores (or AI cores), millicores of
CPU, bytes of memory, plain counts for all other resources, unix seconds.

Every fact is a tagged msgspec struct with a version ``v``. Decoders ignore unknown fields; new fields need a default.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar, NewType

import msgspec
from msgspec.structs import replace

from deviceshare.model.bounded import Amount, Real
from deviceshare.model.claims import ContainerGrant, HostPort, Tenant
from deviceshare.model.device_claims import ClaimRequest, DeviceClaim, PodDeviceClaim
from deviceshare.model.pod_topology import ImposedTerm, PodTopology
from deviceshare.model.policies import NO_POLICIES, Policies
from deviceshare.model.problems import Problem
from deviceshare.model.requirements import Labels, Preference, Requirement, Taint, Toleration
from deviceshare.model.volumes import VOLUMES, Disk, PodVolume, VolumeUse, uses_of

DEVICE_CLAIMS = "spec.resourceClaims"
"""In ``unsupported`` of a pod with ResourceClaims."""

Resources = dict[str, Amount]
"""Amounts by resource name.

``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in bytes, all others as plain counts.
"""

ResourceAmounts = tuple[tuple[str, Amount], ...]
"""Pairs of resource name and amount, sorted by name; units as in :data:`Resources`."""

PodUid = NewType("PodUid", str)
GroupKey = NewType("GroupKey", str)
"""``namespace/name`` of a PodGroup, or ``pod/<uid>`` for a pod without a PodGroup."""


# gc=False: there are many instances, and none can be part of a reference cycle.
class Card(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One physical device as its device plugin registers it.

    ``slots``: how many pods may share it; ``memory`` in MiB; ``cores`` in percent (100 = the whole card) or AI cores.
    """

    id: str
    index: Amount
    slots: Amount
    memory: Amount
    cores: Amount
    type: str = ""
    healthy: bool = True
    mode: str = ""
    """The sharing mode: ``gpu-share``, ``hami-core``, ``mig``, ``mps``, or another that a device plugin registers."""
    network: Amount = -1
    """Cards with the same number are linked (Ascend's NetworkID); -1: unknown."""
    cordoned: bool = False
    """Whether the card gets no further pods (:class:`CardCordon`); pods that have it keep it."""


class CardCordon(msgspec.Struct, frozen=True, array_like=True):
    """The maintenance of one card: who ordered it, why, and since when (RFC 3339); '' where it is not known."""

    id: str
    by: str = ""
    reason: str = ""
    since: str = ""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all facts; ``revision`` is the resourceVersion of the source object."""

    v: int = 1
    revision: str = ""
    named_by: ClassVar[str] = "name"
    """The field with the name of its object on the bus: ``name``, ``uid``, or ``key`` (``namespace/name``)."""


class NodeFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node"):
    """A node, its allocatable resources and its cards."""

    name: str
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = {}
    cards: tuple[Card, ...] = ()
    contested: tuple[str, ...] = ()
    """Hardware (``NVIDIA GPUs``) whose cards two device plugins register on the node; it is not allocated."""
    cordons: tuple[CardCordon, ...] = ()
    """The cordoned ones of ``cards``, sorted by id."""
    locks: tuple[tuple[str, str], ...] = ()
    """Lock annotations that schedulers set while a device plugin serves a pod, with their values, sorted."""
    problems: tuple[Problem, ...] = ()
    paused: str = ""
    """Why nothing is placed on the node although it takes pods; set by placement after decoding."""

    @property
    def takes_pods(self) -> bool:
        """Whether the node is ready and schedulable."""
        return self.ready and not self.unschedulable


class ContainerRequest(msgspec.Struct, frozen=True, array_like=True):
    """The resources of one container: requests of native resources, limits of extended ones.

    For extended resources the API server keeps requests and limits equal.
    """

    name: str
    resources: tuple[tuple[str, Amount], ...]
    """Sorted by name, so that equal requests are equal values."""
    sidecar: bool = False
    """Whether it is an init container with ``restartPolicy: Always``."""

    def get(self, resource: str) -> int | None:
        """Return the requested amount of ``resource``, or None."""
        for name, amount in self.resources:
            if name == resource:
                return amount
        return None


class PodRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """The parts of a pod that determine its placement. Pods with equal requests share one evaluation of the cluster."""

    containers: tuple[ContainerRequest, ...] = ()
    init_containers: tuple[ContainerRequest, ...] = ()
    overhead: tuple[tuple[str, Amount], ...] = ()
    pod_level: tuple[tuple[str, Amount], ...] = ()
    """Pod-level requests (``spec.resources``): they replace the requests of its containers."""
    host_ports: tuple[HostPort, ...] = ()
    """Sorted, without duplicates."""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity: all requirements of at least one term; None: no required affinity."""
    preferences: tuple[Preference, ...] = ()
    """Preferred node affinity."""
    tolerations: tuple[Toleration, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations that a device family reads (``volcano.sh/vgpu-mode``, …), sorted."""
    labels: Labels = ()
    """Labels that a device family reads, sorted."""
    apart_group: str = ""
    """The pod's PodGroup if its pods must not share a card (``volcano.sh/vgpu-podgroup-policy: spread``), else ''."""
    exclusive: tuple[Labels, ...] = ()
    """The configured exclusion rules that match the pod's labels; set after decoding."""
    topology: PodTopology | None = None
    """Inter-pod affinity, anti-affinity and topology spread; None: the pod has no such constraint."""
    imposed: tuple[ImposedTerm, ...] = ()
    """Terms of other pods that select the pod; set after decoding."""
    volumes: tuple[PodVolume, ...] = ()
    """The volumes that need a PersistentVolumeClaim."""
    disks: tuple[Disk, ...] = ()
    """The disks that pods on one node may not be able to share."""
    claims: tuple[VolumeUse, ...] = ()
    """The claims of ``volumes``; set after decoding."""
    devices: tuple[ClaimRequest, ...] = ()
    """The ResourceClaims; set after decoding, where they are served."""
    policies: Policies = NO_POLICIES
    """Those of its annotations; after decoding also those of its PodGroup and queue."""
    unsupported: tuple[str, ...] = ()
    """Scheduling constraints of the pod that are not evaluated, by field (``spec.resourceClaims``, …)."""

    @property
    def best_effort(self) -> bool:
        """Whether the pod requests nothing; the action ``backfill`` serves best-effort pods."""
        containers = (*self.containers, *self.init_containers)
        amounts = (self.overhead, self.pod_level, *(container.resources for container in containers))
        return not any(amount for each in amounts for _, amount in each)

    @property
    def unevaluated(self) -> tuple[str, ...]:
        """``unsupported`` without ``volumes`` and ``devices``: only earlier versions do not evaluate them."""
        evaluated = {f"{VOLUMES}[{each.name}]" for each in self.volumes}
        if self.devices:
            evaluated.add(DEVICE_CLAIMS)
        return tuple(field for field in self.unsupported if field not in evaluated)

    @property
    def follows_pods(self) -> bool:
        """Whether the placement of other pods may make nodes feasible: required affinity, or a required spread."""
        topology = self.topology
        return topology is not None and (bool(topology.affinity) or any(each.required for each in topology.spread))

    def annotation(self, key: str) -> str | None:
        """Return the value of an annotation of ``annotations``, or None."""
        for name, value in self.annotations:
            if name == key:
                return value
        return None


class PodFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="pod"):
    """A pod: identity, request, node and devices."""

    named_by = "uid"
    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    priority: Amount = 0
    task_priority: Amount | None = None
    """``volcano.sh/task-priority``: replaces ``priority`` in the order of the pods of a group."""
    created: Real = 0.0
    node: str = ""
    """The node it is bound to, or ''."""
    running: bool = False
    """Whether a pod of a PodGroup is in phase Running; always false without a PodGroup."""
    ended: bool = False
    """In phase Succeeded or Failed: holds no devices or resources."""
    succeeded: bool = False
    """In phase Succeeded: still counts towards the minimum of its gang."""
    terminating: bool = False
    """Has a deletion timestamp: keeps its devices and resources, but is not placed."""
    gates: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    """Claims by which the unbound pod must not be bound any more (:mod:`deviceshare.model.fences`)."""
    group: GroupKey = GroupKey("")
    queue: str = ""
    task: str = ""
    """``volcano.sh/task-spec``: its task within the Job."""
    labels: Labels = ()
    """All labels, sorted: for exclusion rules, and for selectors of other pods."""
    ask: PodRequest = PodRequest()
    device_claims: tuple[PodDeviceClaim, ...] = ()
    """Its ResourceClaims."""
    held: tuple[ContainerGrant, ...] = ()
    """Devices that the annotations of a bound pod name; a negative memory means the whole card."""
    signed: bool = False
    """Whether our signature covers ``held``. Otherwise ``held`` counts up to the pod's request."""
    unserved: tuple[tuple[str, str], ...] = ()
    """Allocations of the bound pod that a device plugin has yet to serve, or that kubelet may request again: family and
    plugin key (:meth:`deviceshare.families.device_plugin.DevicePlugin.keys`)."""
    until_running: tuple[str, ...] = ()
    """Plugin keys under which a device plugin may select the bound pod again although it has served it
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.until_running`)."""
    selectable: tuple[tuple[str, str, str], ...] = ()
    """Allocations that device plugins of other nodes than the pod's may serve by its annotations, though it be on none:
    node, family and plugin key
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.selectable`)."""
    preemptable: bool = True
    """Whether it may be evicted for other pods (``volcano.sh/preemptable``)."""
    cooldown: Real = 0.0
    """Seconds after it was scheduled in which the plugin ``cdp`` protects it (``volcano.sh/cooldown-time``)."""
    scheduled_at: Real = 0.0
    """Unix time of its condition PodScheduled, of a bound pod with a cooldown; else 0."""
    grace: Real = 30.0
    """Seconds that it may take to end (``spec.terminationGracePeriodSeconds``)."""
    never_preempts: bool = False
    """Whether no pod is evicted for it (``preemptionPolicy: Never``, which admission copies from its class)."""
    owner: str = ""
    """Its controller, else its first owner, as ``Kind/name``; '' if it has none. For people only."""
    problems: tuple[Problem, ...] = ()

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def priority_in_group(self) -> int:
        """The priority that orders the pods of a group."""
        return self.priority if self.task_priority is None else self.task_priority

    @property
    def podgroup(self) -> str:
        """``namespace/name`` of its PodGroup, or ''."""
        return "" if self.group == f"pod/{self.uid}" else self.group

    @property
    def tenant(self) -> Tenant:
        """The pod as a holder of devices, and as other pods see it on its node."""
        ask = self.ask
        volumes, disks = (self.volume_uses, ask.disks) if ask.volumes or ask.disks else ((), ())
        tenant = _tenant(self.podgroup, self.labels, self.namespace, self.terminating, ask.topology, volumes, disks)
        if self.device_claims:
            return replace(tenant, devices=tuple(DeviceClaim(each.claim) for each in self.device_claims))
        return tenant

    @property
    def volume_uses(self) -> tuple[VolumeUse, ...]:
        """The claims that its volumes use."""
        return uses_of(self.ask.volumes, self.namespace, self.name, self.uid)


_tenant = lru_cache(maxsize=4096)(Tenant)
"""One object for equal pods: each that is placed keeps its own."""


class OtherPodFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="otherpod"):
    """A waiting pod that requests devices and belongs to another scheduler: it is shown, and never placed."""

    named_by = "uid"
    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    created: Real = 0.0
    served: tuple[str, ...] = ()
    """The values of ``spec.schedulerName`` that deviceshare serves."""
    selectable: tuple[tuple[str, str, str], ...] = ()
    """As of a :class:`PodFact`."""

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def message(self) -> str:
        """Why the pod is not placed."""
        return not_served(self.scheduler, self.served)


def not_served(scheduler: str, served: Iterable[str]) -> str:
    """Return why a pod with this ``spec.schedulerName`` is not placed."""
    return f'spec.schedulerName is "{scheduler}": deviceshare places pods with {" or ".join(served)}'
