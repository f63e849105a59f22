"""The scheduler's configuration as values. The other modules of this package read them from text."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from deviceshare.conf.device_sections import BUILT_IN, DevicesConf
from deviceshare.conf.node_plugins import ALL_PREDICATES, Binpack, NodeOrder, Predicates
from deviceshare.model import NO_POLICIES, Labels, Policies
from deviceshare.policies import CardPolicy, card_policy

BEST_FIT, FIRST_FIT = "best-fit", "first-fit"
FEWEST, LOWEST = "fewest", "lowest"
"""Which victims are best: the fewest; or those whose highest priority is lowest, and of these the fewest."""

STARVATION = 300.0
"""The default of ``deviceshare.StarvationSeconds``."""
PREEMPTION_TIMEOUT = 300.0
"""The default of ``deviceshare.PreemptionTimeoutSeconds``."""


def matching(rules: Iterable[Labels], labels: Iterable[tuple[str, str]]) -> tuple[Labels, ...]:
    """Return the rules whose labels are all in ``labels``."""
    has = frozenset(labels)
    return tuple(rule for rule in rules if has.issuperset(rule))


class Plugin(msgspec.Struct, frozen=True):
    """A plugin in a tier, and its disabled functions by Volcano's names (``JobOrder``, …).

    ``hierarchy``: its key ``enableHierarchy``, off by default.
    """

    name: str
    off: frozenset[str] = frozenset()
    hierarchy: bool = False


Tiers = tuple[tuple[Plugin, ...], ...]


def tiers(*names: str) -> Tiers:
    """Return tiers of plugins with all functions enabled; the names of one tier are separated by blanks."""
    return tuple(tuple(Plugin(name) for name in tier.split()) for tier in names)


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduling behaviour beyond Volcano's. Each can be disabled (:data:`deviceshare.conf.known.EXTENSIONS`)."""

    borrowing: bool = True
    """A queue may exceed its deserved amount of a resource while no other queue waits for it within its own."""
    gangs: bool = True
    """Gangs start whole even without the plugin ``gang``."""
    gang_retry: bool = True
    """If a gang does not fit in the order of its pods, the pods for the minimum of each task are tried first."""
    card_quotas: bool = True
    """Queues count the memory and cores of all cards that a pod gets; off: the amounts in its request."""
    gang_backfill: bool = True
    """Best-effort pods count for the minimum of their gang only if capacity is held for them, and use no capacity in a
    cycle that does not place the rest of the gang."""
    promise_return: bool = True
    """A group that cannot start gives back what its queue promised it, if others are not admitted for that."""
    exact_shares: bool = True
    """Deserved amounts by weight are computed exactly, and guarantees never exceed the cluster's total."""
    queue_state: bool = True
    """A queue that is not open serves no pods under any plugins."""
    parent_shares: bool = True
    """In a hierarchy an allocation changes the order of all queues immediately; off: later, as in Volcano."""
    hierarchy_isolation: bool = True
    """An invalid hierarchy blocks only the pods of the queues concerned; off: the pods of all queues."""
    whole_gangs: bool = True
    """A gang of which a pod is evicted keeps its minimum or goes whole, even without the plugin ``gang``; off: as the
    plugin says, which takes only what a gang has above its minimum, or whole gangs by ``gangpreempt`` and
    ``gangreclaim``."""
    all_tiers_protect: bool = True
    """A pod is evicted only if all listed plugins allow it; off: as in Volcano, those of the first tier that allows the
    eviction of some pod of the node."""
    spread_nodes: bool = True
    """The policy ``spread`` prefers the node with the fewest vGPUs; off: it only chooses among the cards of a node."""


class DeviceScope(msgspec.Struct, frozen=True):
    """``deviceshare.ResourceClaimsScope``: which devices ResourceClaims may get beside other schedulers.

    ``guarded``: whether others may allocate the same devices, so that a pod with new ones waits for what they had
    decided. ``nodes``: the labels of the nodes whose devices are given, and none that several nodes see; () for all.
    """

    guarded: bool = True
    nodes: Labels = ()


class SchedulerConf(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration, with defaults for absent values.

    ``families`` are the enabled flags (``deviceshare.VGPUEnable``, …); ``policy`` is the name of one of
    :data:`deviceshare.policies.CARD_POLICIES`; ``weight`` (ScheduleWeight) multiplies the node score, with 0 the score
    only breaks ties.
    ``mig_geometry`` is ``best-fit`` or ``first-fit``. Two settings restore Volcano's behaviour: with ``mixed_chips``
    an Ascend chip may be partitioned by templates and shared by HAMi-core at the same time; with
    ``number_on_shared_nodes`` pods that request ``volcano.sh/gpu-number`` get cards of nodes whose device plugin shares
    their memory. With ``type_parts`` a model that is a whole word of no type of cards matches parts of words. No two
    pods whose labels match one of ``exclusive_rules`` share a card.
    """

    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
    plugins: tuple[str, ...] = ()
    tiers: Tiers = ()
    """The plugins by tier; earlier ones take precedence."""
    starvation: float = STARVATION
    """Seconds after which nodes are reserved for a waiting gang; 0: never."""
    waiting_time: float | None = None
    """``sla-waiting-time`` of the plugin ``sla`` in seconds; replaces ``starvation``."""
    overcommit: float = 0.0
    """``overcommit-factor``: the share of the cluster that queues may admit; 0: the plugin is not configured."""
    ancestor_reclaim_level: int = 0
    """``ancestorReclaimLevel`` of the plugin ``capacity``: how many ancestors of queues reclaim looks at."""
    predicates: Predicates = ALL_PREDICATES
    dra: bool = False
    """``deviceshare.ResourceClaimsEnable``: whether pods with ResourceClaims are placed, an experiment."""
    device_scope: DeviceScope = DeviceScope()
    nodeorder: NodeOrder | None = None
    binpack: Binpack | None = None
    """``nodeorder`` and ``binpack`` score nodes only if configured."""
    families: frozenset[str] = frozenset()
    policy: str = ""
    policies: Policies = NO_POLICIES
    """Those of a pod, which replace ``policy``: see :meth:`for_pod`."""
    weight: int = 0
    node_lock: bool = False
    mig_geometry: str = BEST_FIT
    mixed_chips: bool = False
    number_on_shared_nodes: bool = False
    type_parts: bool = False
    exclusive_rules: tuple[Labels, ...] = ()
    preemption_victims: str = FEWEST
    """:data:`FEWEST` or :data:`LOWEST`."""
    preemption_timeout: float = PREEMPTION_TIMEOUT
    """Seconds after its grace period in which a pod that has to go may stay; then the others do not go for it."""
    preemption_delay: float = 0.0
    """Seconds that a group waits for room before pods go for it."""
    extensions: Extensions = Extensions()
    geometries_config_map: tuple[str, str] = ("kube-system", "volcano-vgpu-device-config")
    """Namespace and name of the ConfigMap with ``device-config.yaml``."""
    arguments: dict[str, dict[str, str]] = {}
    """All arguments as text, by plugin."""
    configurations: dict[str, dict[str, str]] = {}
    """The arguments under ``configurations`` as text, by name (``init-params``, …)."""
    devices: DevicesConf = BUILT_IN
    """``device-config.yaml``: names of resources, geometries, chips."""
    warnings: tuple[str, ...] = ()

    def for_pod(self, policies: Policies) -> "SchedulerConf":
        """Return the configuration that applies to a pod with these policies."""
        return replace(self, policies=policies) if policies.node or policies.card else self

    @property
    def scoring(self) -> CardPolicy:
        """The policy that scores nodes."""
        return card_policy(self.node_policy)

    @property
    def ordering(self) -> CardPolicy:
        """The policy that orders the cards of a node."""
        return card_policy(self.card_policy)

    @property
    def node_policy(self) -> str:
        """The name of the policy that scores nodes."""
        return self.policies.node or self.policy

    @property
    def card_policy(self) -> str:
        """The name of the policy that orders the cards of a node."""
        return self.policies.card or self.policy

    def enabled(self, function: str) -> tuple[str, ...]:
        """Return the plugins with an enabled function (``JobOrder``, ``QueueOrder``, …), in tier order."""
        return tuple(plugin.name for tier in self.tiers for plugin in tier if function not in plugin.off)

    def does(self, plugin: str, function: str) -> bool:
        """Return whether a plugin is configured with this function enabled."""
        return plugin in self.enabled(function)

    def has_hierarchy(self, plugin: str) -> bool:
        """Return whether a plugin is configured for hierarchies of queues; if it is listed twice, the first counts."""
        return next((each.hierarchy for tier in self.tiers for each in tier if each.name == plugin), False)

    def argument(self, plugin: str, name: str) -> str:
        """Return an argument of a plugin as text, '' if absent."""
        return self.arguments.get(plugin, {}).get(name, "")
