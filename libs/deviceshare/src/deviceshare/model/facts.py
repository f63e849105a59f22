"""Typed facts: the state of the cluster's objects, decoded once from Kubernetes objects.

Inventory publishes facts, all other services read them. A fact contains only what decisions and users need, so a
kubelet's heartbeat changes no fact. Units: MiB of device memory, percent of a card's cores (or AI cores), millicores
of CPU, bytes of memory, counts of all other resources, unix seconds.

Every fact is a tagged msgspec struct with a version ``v``. Decoding ignores unknown fields; new fields need a default.
"""

from typing import NewType

import msgspec

from deviceshare.model.claims import ContainerGrant, HostPort, Tenant
from deviceshare.model.problems import Problem

Labels = tuple[tuple[str, str], ...]
"""Labels of an object, sorted by name."""

Resources = dict[str, int]
"""Amounts by resource name.

``cpu`` in millicores, ``memory`` and ``ephemeral-storage`` in bytes, all others as counts.
"""

ResourceAmounts = tuple[tuple[str, int], ...]
"""Pairs of resource name and amount, sorted by name; units as in :data:`Resources`."""

PodUid = NewType("PodUid", str)
GroupKey = NewType("GroupKey", str)
"""``namespace/name`` of a PodGroup; a pod without a PodGroup is its own group, ``pod/<uid>``."""


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
    """A term of a preferred node affinity: nodes that meet all requirements score ``weight`` (1 to 100) more."""

    weight: int
    requirements: tuple[Requirement, ...]


# gc=False: there are many cards, and none can be part of a reference cycle.
class Card(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A card as its device plugin registers it.

    ``slots`` is the most pods that may share it; ``memory`` in MiB; ``cores`` in percent (100: the whole card) or AI
    cores.
    """

    id: str
    index: int
    slots: int
    memory: int
    cores: int
    type: str = ""
    healthy: bool = True
    mode: str = ""
    """How the card is shared: ``gpu-share``, ``hami-core``, ``mig``, ``mps``, or another mode of a device plugin."""
    network: int = -1
    """Cards with the same number are linked (Ascend's NetworkID); -1: unknown."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all facts; ``revision`` is the resourceVersion of the decoded object."""

    v: int = 1
    revision: str = ""


class NodeFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="node"):
    """A node: its labels, taints, resources and cards."""

    name: str
    uid: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = {}
    cards: tuple[Card, ...] = ()
    contested: tuple[str, ...] = ()
    """Hardware (``NVIDIA GPUs``) that two device plugins register on the node: no pod gets these cards."""
    locks: tuple[tuple[str, str], ...] = ()
    """Node locks: the annotations and their values, sorted."""
    problems: tuple[Problem, ...] = ()

    @property
    def takes_pods(self) -> bool:
        """Whether the node is ready and not cordoned."""
        return self.ready and not self.unschedulable


class ContainerRequest(msgspec.Struct, frozen=True, array_like=True):
    """The request of one container: requests of native resources, limits of extended resources.

    The API server keeps limits and requests of extended resources equal.
    """

    name: str
    resources: tuple[tuple[str, int], ...]
    """Sorted by name, so that equal requests are equal values."""
    sidecar: bool = False
    """Whether it is an init container with ``restartPolicy: Always``."""

    def get(self, resource: str) -> int | None:
        """Return the requested amount of ``resource``, None if it is not requested."""
        for name, amount in self.resources:
            if name == resource:
                return amount
        return None


class PodRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """Everything in a pod that decides where it can run. Pods with equal requests are evaluated once."""

    containers: tuple[ContainerRequest, ...] = ()
    init_containers: tuple[ContainerRequest, ...] = ()
    overhead: tuple[tuple[str, int], ...] = ()
    pod_level: tuple[tuple[str, int], ...] = ()
    """Pod-level requests (``spec.resources``), which replace the requests of the containers."""
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
    """The pod's PodGroup if no two of its pods may share a card (``volcano.sh/vgpu-podgroup-policy: spread``)."""
    exclusive: tuple[Labels, ...] = ()
    """The exclusive rules of the configuration that the pod's labels match."""
    unsupported: tuple[str, ...] = ()
    """Fields of the pod that are not evaluated (``spec.affinity.podAffinity``, …)."""

    @property
    def best_effort(self) -> bool:
        """Whether the pod requests nothing; Volcano's action ``backfill`` serves such pods."""
        containers = (*self.containers, *self.init_containers)
        amounts = (self.overhead, self.pod_level, *(container.resources for container in containers))
        return not any(amount for each in amounts for _, amount in each)

    def annotation(self, key: str) -> str | None:
        """Return the value of a device annotation, None if it is absent."""
        for name, value in self.annotations:
            if name == key:
                return value
        return None


class PodFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="pod"):
    """A pod: its identity, request, node and devices."""

    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    priority: int = 0
    task_priority: int | None = None
    """``volcano.sh/task-priority``: replaces ``priority`` in the order of pods within the group."""
    created: float = 0.0
    node: str = ""
    """The node that it is bound to; empty while it waits."""
    running: bool = False
    """Whether the containers run; set only for pods of a PodGroup."""
    ended: bool = False
    """Succeeded or Failed: the pod holds nothing any more."""
    succeeded: bool = False
    """Succeeded: the pod still counts for its gang."""
    terminating: bool = False
    """Has a deletion timestamp: the pod keeps its devices and gets no new ones."""
    gates: tuple[str, ...] = ()
    group: GroupKey = GroupKey("")
    queue: str = ""
    task: str = ""
    """``volcano.sh/task-spec``: the pod's task in its Job."""
    labels: Labels = ()
    """Labels of a pod that may hold devices, sorted; exclusive rules read them."""
    ask: PodRequest = PodRequest()
    held: tuple[ContainerGrant, ...] = ()
    """Devices in the annotations of a bound pod; a memory below 0 means the whole card."""
    signed: bool = False
    """Whether the binder's signature covers the devices; unsigned devices count up to the pod's request."""
    unserved: tuple[tuple[str, str], ...] = ()
    """Pairs of family and key by which a device plugin may still choose the bound pod
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.keys`)."""
    until_running: tuple[str, ...] = ()
    """Keys by which a device plugin may choose the bound pod again after serving it
    (:meth:`deviceshare.families.device_plugin.DevicePlugin.until_running`)."""
    problems: tuple[Problem, ...] = ()

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def priority_in_group(self) -> int:
        """The priority among the pods of its group."""
        return self.priority if self.task_priority is None else self.task_priority

    @property
    def podgroup(self) -> str:
        """``namespace/name`` of its PodGroup, '' if it has none."""
        return "" if self.group == f"pod/{self.uid}" else self.group

    @property
    def tenant(self) -> Tenant:
        """The properties by which other pods may refuse to share a card with it."""
        return Tenant(self.podgroup, self.labels)


class PodGroupFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="podgroup"):
    """A gang: pods that start together or not at all."""

    key: GroupKey
    uid: str = ""
    queue: str = "default"
    min_member: int = 1
    min_task_member: dict[str, int] = {}
    min_resources: Resources | None = None
    """``spec.minResources``; None: not set."""
    phase: str = ""
    """``status.phase``."""
    admitted: bool = False
    """Whether the group was admitted to its queue, by its phase."""
    waiting_time: float | None = None
    """``sla-waiting-time`` in seconds; None: not set."""
    priority_class: str = ""
    """The name of its PriorityClass, which determines the gang's priority."""
    created: float = 0.0
    problems: tuple[Problem, ...] = ()


class PriorityClassFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="priorityclass"):
    """A PriorityClass: its value, and whether it applies to PodGroups that name no class (``globalDefault``)."""

    name: str
    value: int = 0
    default: bool = False
    problems: tuple[Problem, ...] = ()


class QueueFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue"):
    """A queue; only open queues are served.

    A queue has at least ``guarantee`` and at most ``capability``. Its deserved amount is ``deserved``, or is computed
    from ``weight``. A resource that is not named has no bound.
    """

    name: str
    parent: str = ""
    """``spec.parent``: the parent queue, for the plugin ``capacity`` with hierarchies; '' means ``root``."""
    hierarchy: tuple[tuple[str, float], ...] = ()
    """The path below the root with the weight (1 or more) of each part, for the plugin ``drf`` with hierarchies, from
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
    """The source, for messages: ``ConfigMap ns/name`` or a file."""


class Gone(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="gone"):
    """A tombstone: the object under this subject was deleted."""


class Synced(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="synced"):
    """All objects of the cluster at ``revision`` are on the bus: decisions may begin."""

    at: float = 0.0
    objects: int = 0


AnyFact = NodeFact | PodFact | PodGroupFact | PriorityClassFact | QueueFact | ConfigFact | Gone | Synced
