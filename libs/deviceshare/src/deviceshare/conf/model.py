"""What the scheduler is configured to do: the values, read by everyone. How they are read from text is in the other
modules of this package.
"""

from collections.abc import Iterable

import msgspec

from deviceshare.conf.device_model import BUILT_IN, DevicesConf
from deviceshare.conf.node_plugins import ALL_PREDICATES, Binpack, NodeOrder, Predicates

BEST_FIT, FIRST_FIT = "best-fit", "first-fit"

STARVATION = 300.0
"""Seconds that a gang waits in the line as everybody does, where the configuration says nothing."""

Labels = tuple[tuple[str, str], ...]


def matching(rules: Iterable[Labels], labels: Iterable[tuple[str, str]]) -> tuple[Labels, ...]:
    """Return the rules all of whose labels stand in ``labels``."""
    has = frozenset(labels)
    return tuple(rule for rule in rules if has.issuperset(rule))


class Plugin(msgspec.Struct, frozen=True):
    """A plugin in a tier, and which of its functions are turned off, by the words of Volcano (``JobOrder``, …)."""

    name: str
    off: frozenset[str] = frozenset()


Tiers = tuple[tuple[Plugin, ...], ...]


def tiers(*names: str) -> Tiers:
    """Return tiers of plugins all of whose functions are on; the names of one tier are separated by blanks."""
    return tuple(tuple(Plugin(name) for name in tier.split()) for tier in names)


class SchedulerConf(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says, with the defaults that hold where it is silent.

    ``families`` are the flags that are on (``deviceshare.VGPUEnable``, …); ``policy`` is '' (none), ``binpack`` or
    ``spread``; ``weight`` (ScheduleWeight) multiplies the node score, 0 leaves it to break ties. ``mig_geometry`` is
    ``best-fit`` or ``first-fit``. With ``mixed_chips`` an Ascend chip may be cut by templates and shared by HAMi-core
    at the same time, as Volcano lets it. Of pods whose labels match one of ``exclusive_rules`` no two share a card.
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
    exclusive_rules: tuple[Labels, ...] = ()
    geometries_config_map: tuple[str, str] = ("kube-system", "volcano-vgpu-device-config")
    """Namespace and name of the ConfigMap with ``device-config.yaml``."""
    arguments: dict[str, dict[str, str]] = {}
    """All arguments as text, by plugin."""
    configurations: dict[str, dict[str, str]] = {}
    """The arguments under ``configurations`` as text, by name (``init-params``, …)."""
    devices: DevicesConf = BUILT_IN
    """``device-config.yaml``: the names of the resources, the geometries, the chips."""
    asked: tuple[tuple[str, int, int], ...] = ()
    """What pods ask at present: a family, the MiB of a card, how many cards. Never in the file, only in the questions
    that the allocator puts to families (:meth:`deviceshare.allocator.Allocator.expect`)."""
    warnings: tuple[str, ...] = ()

    def enabled(self, function: str) -> tuple[str, ...]:
        """Return the plugins of which a function is on (``JobOrder``, ``QueueOrder``, …), in the order of the tiers."""
        return tuple(plugin.name for tier in self.tiers for plugin in tier if function not in plugin.off)

    def does(self, plugin: str, function: str) -> bool:
        """Return whether a plugin is configured and this function of it is on."""
        return plugin in self.enabled(function)

    def argument(self, plugin: str, name: str) -> str:
        """Return an argument of a plugin as text, '' where there is none."""
        return self.arguments.get(plugin, {}).get(name, "")
