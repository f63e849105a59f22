"""Typed facts: what the scheduler knows of a cluster, decoded once from Kubernetes objects.

Inventory writes them to the bus, everyone else reads them. A fact holds only what a decision or a user's view needs,
so that a heartbeat of a kubelet changes no fact. Units: MiB of device memory, percent of a card's cores (or AI
cores), millicores of CPU, bytes of memory, plain counts for all other resources, unix seconds.

Every fact is a tagged msgspec struct with a version ``v``; unknown fields are ignored when decoding, new ones need a
default.
"""

from typing import NewType

import msgspec

from deviceshare.model.claims import ContainerGrant, HostPort, Tenant
from deviceshare.model.problems import Problem

Labels = tuple[tuple[str, str], ...]
"""Labels of an object, sorted by name."""

Resources = dict[str, int]
"""Amounts by resource name.

``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in bytes, all others as plain counts.
"""

ResourceAmounts = tuple[tuple[str, int], ...]
"""Pairs of resource name and amount, sorted by name; units as in :data:`Resources`."""

PodUid = NewType("PodUid", str)
GroupKey = NewType("GroupKey", str)
"""``namespace/name`` of a PodGroup; a pod without one is a group of its own under ``pod/<uid>``."""


class Taint(msgspec.Struct, frozen=True, array_like=True):
    """A node's taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Toleration(msgspec.Struct, frozen=True, array_like=True):
    """A pod's toleration; an empty key with ``Exists`` tolerates everything, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(msgspec.Struct, frozen=True, array_like=True):
    """One expression of a node selector term; ``field`` is true for ``matchFields`` (only ``metadata.name`` exists)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


class Preference(msgspec.Struct, frozen=True, array_like=True):
    """A term of a preferred node affinity: nodes that meet all of its requirements count ``weight`` (1 to 100) more."""

    weight: int
    requirements: tuple[Requirement, ...]


# There are many, and none can be part of a cycle: the garbage collector need not know them.
class Card(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One physical device as its plugin registers it.

    ``slots`` is how many pods may share it, ``memory`` MiB, ``cores`` percent (100 = the whole card) or AI cores.
    """

    id: str
    index: int
    slots: int
    memory: int
    cores: int
    type: str = ""
    healthy: bool = True
    mode: str = ""
    """How the card is cut.

    ``gpu-share``, ``hami-core``, ``mig``, ``mps``, or another that a device plugin registers.
    """
    network: int = -1
    """Cards with the same number are linked to each other (Ascend's NetworkID); -1: not known."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all facts; ``revision`` is the resourceVersion of the object it was decoded from."""

    v: int = 1
    revision: str = ""


class NodeFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node"):
    """A node: what may run there, and its cards."""

    name: str
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = {}
    cards: tuple[Card, ...] = ()
    contested: tuple[str, ...] = ()
    """Hardware (``NVIDIA GPUs``) of which two device plugins register the node's cards: nobody gets any of it."""
    locks: tuple[tuple[str, str], ...] = ()
    """Annotations by which schedulers lock the node while a device plugin serves a pod, and their values, sorted."""
    problems: tuple[Problem, ...] = ()

    @property
    def takes_pods(self) -> bool:
        """Whether pods may be bound there now, as far as the node itself says."""
        return self.ready and not self.unschedulable


class ContainerRequest(msgspec.Struct, frozen=True, array_like=True):
    """What one container asks.

    Requests of native resources, limits of extended ones (the API server makes those equal).
    """

    name: str
    resources: tuple[tuple[str, int], ...]
    """Sorted by name, so that equal asks are equal values."""
    sidecar: bool = False
    """An init container that stays (``restartPolicy: Always``)."""

    def get(self, resource: str) -> int | None:
        """Return the amount asked of ``resource``, or None where it is not asked."""
        for name, amount in self.resources:
            if name == resource:
                return amount
        return None


class PodRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """All of a pod that a placement depends on, and nothing else.

    Pods with equal asks share one evaluation of the cluster.
    """

    containers: tuple[ContainerRequest, ...] = ()
    init_containers: tuple[ContainerRequest, ...] = ()
    overhead: tuple[tuple[str, int], ...] = ()
    pod_level: tuple[tuple[str, int], ...] = ()
    """Requests of the pod as a whole (``spec.resources``): they stand in place of what its containers request."""
    host_ports: tuple[HostPort, ...] = ()
    """Sorted, each once."""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity: any of the terms, all requirements of it; None where there is none."""
    preferences: tuple[Preference, ...] = ()
    """Preferred node affinity."""
    tolerations: tuple[Toleration, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """Those that a device family reads as a wish (``volcano.sh/vgpu-mode``, …), sorted."""
    labels: Labels = ()
    """Those that a device family reads as a wish, sorted."""
    apart_group: str = ""
    """The pod's PodGroup, where no two pods of it may be on one card (``volcano.sh/vgpu-podgroup-policy: spread``)."""
    exclusive: tuple[Labels, ...] = ()
    """Those of the configuration's rules of exclusion that the pod's labels match; set by whoever has the two."""
    unsupported: tuple[str, ...] = ()
    """What the pod asks and nobody here evaluates, by its field name (``spec.affinity.podAffinity``, …)."""

    @property
    def best_effort(self) -> bool:
        """Whether it requests nothing; Volcano's action ``backfill`` serves such pods."""
        containers = (*self.containers, *self.init_containers)
        amounts = (self.overhead, self.pod_level, *(container.resources for container in containers))
        return not any(amount for each in amounts for _, amount in each)

    def annotation(self, key: str) -> str | None:
        """Return the value of a device annotation of the pod, or None."""
        for name, value in self.annotations:
            if name == key:
                return value
        return None


class PodFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="pod"):
    """A pod: who it is, what it asks, where it runs."""

    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    priority: int = 0
    task_priority: int | None = None
    """``volcano.sh/task-priority``: what orders it among the pods of its group in place of ``priority``."""
    created: float = 0.0
    node: str = ""
    """Where it is bound; empty while it waits."""
    running: bool = False
    """A pod of a PodGroup: its containers run. Nobody asks that of others, and so nobody is told."""
    ended: bool = False
    """Succeeded or Failed: holds nothing any more."""
    succeeded: bool = False
    """Ended well: it still counts for its gang."""
    terminating: bool = False
    """Has a deletion timestamp: still holds what it has, gets nothing new."""
    gates: tuple[str, ...] = ()
    group: GroupKey = GroupKey("")
    queue: str = ""
    task: str = ""
    """``volcano.sh/task-spec``: the task of the Job that it is a replica of."""
    labels: Labels = ()
    """Of a pod that may hold devices, sorted: rules of exclusion look at them."""
    ask: PodRequest = PodRequest()
    held: tuple[ContainerGrant, ...] = ()
    """Devices that the annotations of a bound pod name; a memory below 0 means the whole card."""
    signed: bool = False
    """Whether they are those that we wrote: our signature stood on the pod. Others count as far as the pod asks."""
    unserved: tuple[tuple[str, str], ...] = ()
    """What a device plugin may still take the bound pod for: the family and the words of its plugin
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.keys`)."""
    until_running: tuple[str, ...] = ()
    """What a device plugin may take the bound pod for though it has served it
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.until_running`)."""
    problems: tuple[Problem, ...] = ()

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def priority_in_group(self) -> int:
        """What orders it among the pods of its group."""
        return self.priority if self.task_priority is None else self.task_priority

    @property
    def podgroup(self) -> str:
        """``namespace/name`` of its PodGroup, '' where it has none."""
        return "" if self.group == f"pod/{self.uid}" else self.group

    @property
    def tenant(self) -> Tenant:
        """Who it is to others that may not want to share a card with it."""
        return Tenant(self.podgroup, self.labels)


class PodGroupFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="podgroup"):
    """A gang: pods that start together or not at all."""

    key: GroupKey
    uid: str = ""
    queue: str = "default"
    min_member: int = 1
    min_task_member: dict[str, int] = {}
    min_resources: Resources | None = None
    """What it needs at least, in all; None where it does not say so."""
    phase: str = ""
    """``status.phase``."""
    admitted: bool = False
    """Whether its phase says that it was let into its queue."""
    waiting_time: float | None = None
    """Seconds that it should wait at most (``sla-waiting-time``); None where it does not say so."""
    priority_class: str = ""
    """The name of its PriorityClass, which gives the gang's priority."""
    created: float = 0.0
    problems: tuple[Problem, ...] = ()


class PriorityClassFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="priorityclass"):
    """A PriorityClass: its value, and whether it is that of PodGroups that name none (``globalDefault``)."""

    name: str
    value: int = 0
    default: bool = False
    problems: tuple[Problem, ...] = ()


class QueueFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue"):
    """A queue of the cluster; only open ones are served.

    It has at least ``guarantee`` and at most ``capability``; ``deserved`` is its part as somebody set it, ``weight``
    from what it is worked out otherwise. A resource that is not named has no bound.
    """

    name: str
    parent: str = ""
    """``spec.parent``: the queue above it, for the plugin ``capacity`` with hierarchies. Empty stands for ``root``."""
    hierarchy: tuple[tuple[str, float], ...] = ()
    """Its path below the root and the weight (1 or more) of each node on it, for the plugin ``drf`` with hierarchies:
    the annotations ``volcano.sh/hierarchy`` and ``volcano.sh/hierarchy-weights``."""
    weight: int = 1
    priority: int = 0
    capability: Resources = {}
    deserved: Resources = {}
    guarantee: Resources = {}
    reclaimable: bool = True
    created: float = 0.0
    open: bool = True
    state: str = ""
    problems: tuple[Problem, ...] = ()


class ConfigFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="config"):
    """A configuration text: ``name`` is ``scheduler`` (volcano-scheduler.conf) or ``devices`` (device-config.yaml)."""

    name: str
    text: str
    source: str = ""
    """Where it comes from, for messages: ``ConfigMap ns/name`` or a file."""


class Gone(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="gone"):
    """A tombstone: the object that stood under this subject is no more."""


class Synced(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="synced"):
    """Everything that the cluster held at ``revision`` is on the bus: decisions may begin."""

    at: float = 0.0
    objects: int = 0


AnyFact = NodeFact | PodFact | PodGroupFact | PriorityClassFact | QueueFact | ConfigFact | Gone | Synced
