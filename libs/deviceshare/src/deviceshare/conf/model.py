"""What the scheduler is configured to do: the values, read by everyone. How they are read from text is in the other
modules of this package.
"""

from collections.abc import Iterable

import msgspec

from deviceshare.conf.device_model import BUILT_IN, DevicesConf
from deviceshare.conf.node_plugins import ALL_PREDICATES, Binpack, NodeOrder, Predicates
from deviceshare.model import Labels

BEST_FIT, FIRST_FIT = "best-fit", "first-fit"

STARVATION = 300.0
"""Seconds that a gang waits in the line as everybody does, where the configuration says nothing."""


def matching(rules: Iterable[Labels], labels: Iterable[tuple[str, str]]) -> tuple[Labels, ...]:
    """Return the rules all of whose labels stand in ``labels``."""
    has = frozenset(labels)
    return tuple(rule for rule in rules if has.issuperset(rule))


class Plugin(msgspec.Struct, frozen=True):
    """A plugin in a tier, and which of its functions are turned off, by the words of Volcano (``JobOrder``, …).

    ``hierarchy``: its key ``enableHierarchy``, which is off where the configuration says nothing.
    """

    name: str
    off: frozenset[str] = frozenset()
    hierarchy: bool = False


Tiers = tuple[tuple[Plugin, ...], ...]


def tiers(*names: str) -> Tiers:
    """Return tiers of plugins all of whose functions are on; the names of one tier are separated by blanks."""
    return tuple(tuple(Plugin(name) for name in tier.split()) for tier in names)


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduling behaviour beyond Volcano's. Each can be turned off (:data:`deviceshare.conf.known.EXTENSIONS`)."""

    borrowing: bool = True
    """A queue may exceed what it deserves of a resource while no other queue waits for it within its own share."""
    gangs: bool = True
    """A gang is placed whole although the plugin ``gang`` is not configured."""
    gang_retry: bool = True
    """Where a gang does not fit in the order of its pods, those that the minimum of each task needs are tried first."""
    card_quotas: bool = True
    """Queues count the memory and cores of all cards that a pod gets; off: the amounts as the pod requests them."""
    gang_backfill: bool = True
    """Pods that request nothing count for the minimum of their gang only where room is held for them, and take no room
    on nodes in a cycle that does not place the rest of the gang."""
    exact_shares: bool = True
    """What queues deserve by weight is computed exactly, and guarantees never add up to more than there is."""
    queue_state: bool = True
    """A queue that is not open serves no pod, whatever plugins are configured."""
    parent_shares: bool = True
    """In a hierarchy what a queue is given counts at once for the places of all others; off: as late as in Volcano."""
    hierarchy_isolation: bool = True
    """What is wrong in a hierarchy keeps only the pods of the queues concerned waiting; off: the pods of all queues."""
    spread_nodes: bool = True
    """The policy ``spread`` prefers the node with the fewest vGPUs; off: it only chooses among the cards of a node."""


class SchedulerConf(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says, with the defaults that hold where it is silent.

    ``families`` are the flags that are on (``deviceshare.VGPUEnable``, …); ``policy`` is '' (none), ``binpack`` or
    ``spread``; ``weight`` (ScheduleWeight) multiplies the node score, 0 leaves it to break ties. ``mig_geometry`` is
    ``best-fit`` or ``first-fit``. With ``mixed_chips`` an Ascend chip may be cut by templates and shared by HAMi-core
    at the same time, as Volcano lets it; with ``number_on_shared_nodes`` pods that ask ``volcano.sh/gpu-number`` get
    cards of nodes whose device plugin shares their memory, likewise. Of pods whose labels match one of
    ``exclusive_rules`` no two share a card.
    """

    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
    plugins: tuple[str, ...] = ()
    tiers: Tiers = ()
    """The plugins in their order, which is that of their say."""
    starvation: float = STARVATION
    """Seconds after which a gang that waits has nodes kept free for it; 0 for never."""
    waiting_time: float | None = None
    """``sla-waiting-time`` of the plugin ``sla`` in seconds: it stands in the place of ``starvation``."""
    overcommit: float = 0.0
    """How much of what the cluster has may be let into queues (``overcommit-factor``); 0: no plugin looks at it."""
    predicates: Predicates = ALL_PREDICATES
    nodeorder: NodeOrder | None = None
    binpack: Binpack | None = None
    """The two score nodes only where they are configured."""
    families: frozenset[str] = frozenset()
    policy: str = ""
    weight: int = 0
    node_lock: bool = False
    mig_geometry: str = BEST_FIT
    mixed_chips: bool = False
    number_on_shared_nodes: bool = False
    exclusive_rules: tuple[Labels, ...] = ()
    extensions: Extensions = Extensions()
    geometries_config_map: tuple[str, str] = ("kube-system", "volcano-vgpu-device-config")
    """Namespace and name of the ConfigMap with ``device-config.yaml``."""
    arguments: dict[str, dict[str, str]] = {}
    """All arguments as text, by plugin."""
    configurations: dict[str, dict[str, str]] = {}
    """The arguments under ``configurations`` as text, by name (``init-params``, …)."""
    devices: DevicesConf = BUILT_IN
    """``device-config.yaml``: the names of the resources, the geometries, the chips."""
    warnings: tuple[str, ...] = ()

    def enabled(self, function: str) -> tuple[str, ...]:
        """Return the plugins of which a function is on (``JobOrder``, ``QueueOrder``, …), in the order of the tiers."""
        return tuple(plugin.name for tier in self.tiers for plugin in tier if function not in plugin.off)

    def does(self, plugin: str, function: str) -> bool:
        """Return whether a plugin is configured and this function of it is on."""
        return plugin in self.enabled(function)

    def has_hierarchy(self, plugin: str) -> bool:
        """Return whether a plugin is configured for hierarchies of queues; listed twice, the first counts."""
        return next((each.hierarchy for tier in self.tiers for each in tier if each.name == plugin), False)

    def bounds_queues(self, function: str) -> bool:
        """Return whether one of the plugins that bound queues has this function on."""
        return self.does("proportion", function) or self.does("capacity", function)

    def argument(self, plugin: str, name: str) -> str:
        """Return an argument of a plugin as text, '' where there is none."""
        return self.arguments.get(plugin, {}).get(name, "")
