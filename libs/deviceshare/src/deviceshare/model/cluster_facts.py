"""The facts of PodGroups, queues, priorities, namespaces and configurations, and the union of all facts."""

# ruff: noqa: RUF012  msgspec gives each fact a default of its own

from deviceshare.model.bounded import Amount, Real
from deviceshare.model.device_facts import DeviceClaimFact, DeviceClassFact, DeviceSliceFact, DeviceTaintRuleFact
from deviceshare.model.disruptions import NO_DISRUPTION, DisruptionLimit
from deviceshare.model.facts import Fact, GroupKey, NodeFact, OtherPodFact, PodFact, Resources
from deviceshare.model.pod_topology import Selector, matches_labels
from deviceshare.model.policies import NO_POLICIES, Policies
from deviceshare.model.problems import Problem
from deviceshare.model.requirements import Labels
from deviceshare.model.storage_facts import StorageClassFact, VolumeClaimFact, VolumeFact, VolumeLimitsFact

DEFAULT_QUEUE = "default"
"""The queue of pods and PodGroups that name none. Its object need not exist."""


class PodGroupFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="podgroup"):
    """A PodGroup: its pods are scheduled together (gang scheduling)."""

    named_by = "key"
    key: GroupKey
    uid: str = ""
    queue: str = DEFAULT_QUEUE
    min_member: Amount = 1
    min_task_member: dict[str, Amount] = {}
    min_resources: Resources | None = None
    """``spec.minResources``; None if missing."""
    phase: str = ""
    """``status.phase``."""
    admitted: bool = False
    """Whether its phase shows that it was admitted to its queue. With signing keys, a phase counts only with our
    signature (:mod:`deviceshare.model.signatures`)."""
    waiting_time: Real | None = None
    """Limit of the waiting time in seconds (``sla-waiting-time``); None if missing."""
    priority_class: str = ""
    """Name of its PriorityClass."""
    policies: Policies = NO_POLICIES
    disruption_limit: DisruptionLimit | None = None
    """How many of its pods the plugin ``tdm`` lets go at a time (``volcano.sh/jdb-min-available``,
    ``jdb-max-unavailable``); None: one."""
    created: Real = 0.0
    problems: tuple[Problem, ...] = ()
    caveats: tuple[str, ...] = ()
    """What the PodGroup asks for that has no effect, a sentence for each."""


class PriorityClassFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="priorityclass"):
    """A PriorityClass; ``default``: whether it applies to PodGroups without a class (``globalDefault``)."""

    name: str
    value: Amount = 0
    default: bool = False
    problems: tuple[Problem, ...] = ()


class QueueFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="queue"):
    """A queue; only open queues are served.

    ``guarantee`` and ``capability`` are its lower and upper bounds; ``deserved`` is its configured share, otherwise the
    share follows from ``weight``. Resources that are not named are unbounded.
    """

    name: str
    parent: str = ""
    """``spec.parent``, for the plugin ``capacity`` with hierarchies; empty means ``root``."""
    hierarchy: tuple[tuple[str, Real], ...] = ()
    """Path below the root with the weight (at least 1) of each node, for the plugin ``drf`` with hierarchies:
    annotations ``volcano.sh/hierarchy`` and ``volcano.sh/hierarchy-weights``."""
    weight: Amount = 1
    priority: Amount = 0
    capability: Resources = {}
    deserved: Resources = {}
    guarantee: Resources = {}
    reclaimable: bool = True
    policies: Policies = NO_POLICIES
    created: Real = 0.0
    open: bool = True
    state: str = ""
    namespaces: tuple[str, ...] | None = None
    """The namespaces that may use the queue (annotation ``deviceshare.io/namespaces``)."""
    namespace_labels: Labels | None = None
    """Namespaces with all of these labels may use it, too (``deviceshare.io/namespace-selector``)."""
    problems: tuple[Problem, ...] = ()

    def serves(self, namespace: str, labels: Labels) -> bool:
        """Return whether a namespace with these labels may use the queue: any, if neither annotation is set."""
        if self.namespaces is None and self.namespace_labels is None:
            return True
        selected = self.namespace_labels is not None and set(self.namespace_labels) <= set(labels)
        return selected or namespace in (self.namespaces or ())

    @property
    def served(self) -> str:
        """The namespaces that may use the queue, in words; '' for all."""
        if self.namespaces is None and self.namespace_labels is None:
            return ""
        parts = [", ".join(self.namespaces)] if self.namespaces else []
        if self.namespace_labels is not None:
            parts.append("those labelled " + ",".join(f"{name}={value}" for name, value in self.namespace_labels))
        return " and ".join(parts) or "none"


class PodDisruptionBudgetFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="poddisruptionbudget"):
    """A PodDisruptionBudget: how many of the selected pods of its namespace may be evicted.

    ``allowed``: ``status.disruptionsAllowed``; None where no controller has written it: then it follows from ``limit``.
    """

    named_by = "key"
    key: str
    """``namespace/name``."""
    selector: Selector = None
    allowed: Amount | None = None
    limit: DisruptionLimit = NO_DISRUPTION
    problems: tuple[Problem, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace of the selected pods."""
        return self.key.partition("/")[0]

    def selects(self, pod: PodFact) -> bool:
        """Return whether a pod is one of the selected ones."""
        return pod.namespace == self.namespace and matches_labels(self.selector, dict(pod.labels))

    def disruptions(self, selected: int, healthy: int) -> int:
        """Return how many pods may be evicted; ``healthy``: how many of the ``selected`` ones run."""
        return self.limit.allowed(selected, healthy) if self.allowed is None else self.allowed


class NamespaceFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="namespace"):
    """A namespace, for the namespace selectors of inter-pod affinity."""

    name: str
    labels: Labels = ()
    """Sorted."""
    problems: tuple[Problem, ...] = ()


class ConfigFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="config"):
    """A configuration: ``name`` is ``scheduler`` (volcano-scheduler.conf) or ``devices`` (device-config.yaml)."""

    name: str
    text: str
    source: str = ""
    """Its source for messages: ``ConfigMap ns/name`` or a file."""


class Gone(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="gone"):
    """A tombstone: the object of this subject was deleted."""


class Synced(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="synced"):
    """All objects of the cluster at ``revision`` are on the bus: scheduling may begin."""

    at: Real = 0.0
    objects: Amount = 0


AnyFact = (
    NodeFact
    | PodFact
    | OtherPodFact
    | PodGroupFact
    | PriorityClassFact
    | QueueFact
    | NamespaceFact
    | PodDisruptionBudgetFact
    | VolumeClaimFact
    | VolumeFact
    | StorageClassFact
    | VolumeLimitsFact
    | DeviceClassFact
    | DeviceSliceFact
    | DeviceClaimFact
    | DeviceTaintRuleFact
    | ConfigFact
    | Gone
    | Synced
)
"""All facts."""
