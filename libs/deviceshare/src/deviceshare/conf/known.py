"""The names that ``volcano-scheduler.conf`` may contain, and suggestions for misspelt ones.

Source: volcano-sh/volcano (pkg/scheduler/{actions,plugins}, pkg/scheduler/conf, pkg/scheduler/plugins/deviceshare).
``deviceshare.MIGGeometryPolicy``, ``deviceshare.AscendMixedChips``, ``deviceshare.GPUNumberOnSharedNodes``,
``deviceshare.GPUTypeParts``, ``deviceshare.StarvationSeconds``, ``deviceshare.PreemptionVictims``,
``deviceshare.PreemptionTimeoutSeconds``, ``deviceshare.PreemptionDelaySeconds``,
``deviceshare.ResourceClaimsEnable``, ``deviceshare.HAMiGPUEnable`` and the :data:`EXTENSIONS` are beyond Volcano.
Device families of other packages add the arguments that enable them (:func:`add_family_flag`).
"""

from collections.abc import Iterable
from difflib import get_close_matches

from deviceshare.policies import QUEUE_POLICIES

ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim")
EVALUATED_ACTIONS = frozenset(ACTIONS) - {"shuffle"}
PARTLY_EVALUATED = {
    "tdm": "only the rules of evictions are evaluated: nodes with a revocable zone get pods at all times"
}
"""Plugins of which a part has an effect here, and which."""
EVALUATED_PLUGINS = frozenset(
    (*QUEUE_POLICIES, "conformance", "cdp", "pdb", "predicates", "nodeorder", "binpack", "deviceshare")
)
"""Plugins with an effect here. PodDisruptionBudgets hold with and without ``pdb``."""
PLUGINS = (
    *sorted(EVALUATED_PLUGINS), *PARTLY_EVALUATED, "numa-aware", "rescheduling", "task-topology", "usage", "nodegroup",
    "resourcequota", "extender", "network-topology-aware", "resource-strategy-fit",
)  # fmt: skip
SECTIONS = ("actions", "tiers", "configurations", "metrics")
"""Keys of the file."""
_FUNCTIONS = (
    "JobOrder", "Hierarchy", "JobReady", "JobPipelined", "TaskOrder", "Preemptable", "Reclaimable", "Preemptive",
    "QueueOrder", "ClusterOrder", "Predicate", "BestNode", "NodeOrder", "TargetJob", "ReservedNodes", "JobEnqueued",
    "Victim", "JobStarving", "Overused", "Allocatable", "HyperNodeOrder", "SubJobReady", "SubJobPipelined",
    "SubJobOrder", "HyperNodeGradient",
)  # fmt: skip
HIERARCHY = "Hierarchy"
"""The only function that is off by default."""
SWITCHES = {f"enable{function}": function for function in _FUNCTIONS} | {
    f"enabled{function}": function for function in _FUNCTIONS if function != HIERARCHY
}
"""Keys that enable or disable one function of a plugin, such as ``enablePreemptable``, and the function.

``enabledHierarchy`` is not one of them: Volcano ignores it.
"""
PLUGIN_KEYS = ("name", "arguments", *(f"enable{function}" for function in _FUNCTIONS))
"""Keys of a plugin, with one spelling of each switch."""
SLA, WAITING_TIME = "sla", "sla-waiting-time"
OVERCOMMIT, OVERCOMMIT_FACTOR = "overcommit", "overcommit-factor"
ANCESTOR_RECLAIM_LEVEL = "ancestorReclaimLevel"
"""Of the plugin ``capacity``."""

GPU_SHARE = "deviceshare.GPUSharingEnable"
GPU_NUMBER = "deviceshare.GPUNumberEnable"
OLD_FLAGS = {"predicate.GPUSharingEnable": GPU_SHARE, "predicate.GPUNumberEnable": GPU_NUMBER}
"""Arguments of ``predicates`` in Volcano up to 1.8.2, and the present ones."""

POLICY = "deviceshare.SchedulePolicy"
WEIGHT = "deviceshare.ScheduleWeight"
NODE_LOCK = "deviceshare.NodeLockEnable"
MIG_GEOMETRY = "deviceshare.MIGGeometryPolicy"
PREEMPTION_VICTIMS = "deviceshare.PreemptionVictims"
PREEMPTION_TIMEOUT = "deviceshare.PreemptionTimeoutSeconds"
PREEMPTION_DELAY = "deviceshare.PreemptionDelaySeconds"
MIXED_CHIPS = "deviceshare.AscendMixedChips"
NUMBER_ON_SHARED = "deviceshare.GPUNumberOnSharedNodes"
TYPE_PARTS = "deviceshare.GPUTypeParts"
EXCLUSIVE_RULES = "deviceshare.GPUExclusiveRules"
STARVATION_SECONDS = "deviceshare.StarvationSeconds"
RESOURCE_CLAIMS = "deviceshare.ResourceClaimsEnable"
DEVICE_SCOPE = "deviceshare.ResourceClaimsScope"
DEVICES_NAME = "deviceshare.KnownGeometriesCMName"
DEVICES_NAMESPACE = "deviceshare.KnownGeometriesCMNamespace"
EXTENSIONS = {
    "deviceshare.BorrowingEnable": "borrowing",
    "deviceshare.GangEnable": "gangs",
    "deviceshare.GangRetryEnable": "gang_retry",
    "deviceshare.CardQuotaEnable": "card_quotas",
    "deviceshare.GangBackfillEnable": "gang_backfill",
    "deviceshare.PromiseReturnEnable": "promise_return",
    "deviceshare.ExactShareEnable": "exact_shares",
    "deviceshare.QueueStateEnable": "queue_state",
    "deviceshare.ParentShareEnable": "parent_shares",
    "deviceshare.HierarchyIsolationEnable": "hierarchy_isolation",
    "deviceshare.PreemptionGangEnable": "whole_gangs",
    "deviceshare.PreemptionTierEnable": "all_tiers_protect",
    "deviceshare.SpreadNodesEnable": "spread_nodes",
}
"""Arguments that disable extensions of Volcano, and their fields in :class:`deviceshare.conf.Extensions`."""
ARGUMENTS = (
    POLICY, WEIGHT, NODE_LOCK, MIG_GEOMETRY, MIXED_CHIPS, NUMBER_ON_SHARED, TYPE_PARTS, EXCLUSIVE_RULES,
    STARVATION_SECONDS, PREEMPTION_VICTIMS, PREEMPTION_TIMEOUT, PREEMPTION_DELAY, RESOURCE_CLAIMS, DEVICE_SCOPE,
    DEVICES_NAME, DEVICES_NAMESPACE, *EXTENSIONS,
)  # fmt: skip
"""The arguments of ``deviceshare``, without those that enable device families."""
_FAMILY_FLAGS = dict.fromkeys((
    GPU_SHARE, GPU_NUMBER, "deviceshare.VGPUEnable", "deviceshare.AscendMindClusterVNPUEnable",
    "deviceshare.AscendHAMiVNPUEnable", "deviceshare.HAMiGPUEnable",
))  # fmt: skip
"""The arguments that enable device families, in the order of the families."""


def family_flags() -> tuple[str, ...]:
    """Return the arguments of ``deviceshare`` that enable device families."""
    return tuple(_FAMILY_FLAGS)


def add_family_flag(flag: str) -> None:
    """Add the argument of a device family, unless it is present."""
    _FAMILY_FLAGS.setdefault(flag)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'binpack'?)`` if a word resembles a known one, ignoring case, else ''."""
    spelling = {name.lower(): name for name in known if name}
    near = get_close_matches(word.lower(), spelling, n=1, cutoff=0.7)
    return f" (did you mean '{spelling[near[0]]}'?)" if near else ""
