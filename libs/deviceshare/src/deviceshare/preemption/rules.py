"""Which pods may go at all: what each listed plugin says of one pod. What they say of several is in the other modules.

All plugins that are listed, and whose function is on, have to agree, whatever their tiers: they are one :class:`Rules`.
In Volcano the first tier that leaves some pod of a node decides (pkg/scheduler/framework/session_plugins.go): with
``deviceshare.PreemptionTierEnable`` off each tier has its own.

Source: Volcano pkg/scheduler/actions/{preempt,reclaim}, pkg/scheduler/plugins/{priority,conformance,cdp,drf,tdm}.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from deviceshare.conf import SchedulerConf
from deviceshare.model import QueueFact
from deviceshare.preemption.candidates import PREEMPT, RECLAIM, EvictionCandidate, Preemptor
from deviceshare.preemption.gangs import Gang

_DECIDING = {
    "Preemptable": frozenset({"priority", "gang", "conformance", "drf", "pdb", "cdp", "tdm"}),
    "Reclaimable": frozenset({"gang", "conformance", "proportion", "capacity", "pdb", "cdp"}),
}
"""The plugins that have a function, besides ``drf`` for reclaim with a hierarchy. Without any of them no pod goes, as
in Volcano."""
_DIVIDING = frozenset({"proportion", "capacity"})
"""The plugins that say what queues deserve."""
_FUNCTIONS = {PREEMPT: "Preemptable", RECLAIM: "Reclaimable"}
_SYSTEM_NAMESPACE = "kube-system"
_HIGHEST_OF_USERS = 1_000_000_000
"""Only system-cluster-critical and system-node-critical are above it: Kubernetes reserves these priorities."""

NO_LOWER_PRIORITY = "hold no pod of lower priority"
NO_OTHER_QUEUE = "hold no pod of another queue"


def rules_of(
    conf: SchedulerConf, action: str, queues: Mapping[str, QueueFact], now: float, revocable: Container[str] = ()
) -> list["Rules"]:
    """Return the rules of one action: those of all plugins together, or of each tier that has some.

    ``now``: unix seconds; ``revocable``: the nodes with a revocable zone.
    """
    function = _FUNCTIONS[action]
    tiers = [conf.enabled(function)]
    if not conf.extensions.all_tiers_protect:
        of_tiers = [[plugin.name for plugin in tier if function not in plugin.off] for tier in conf.tiers]
        tiers = [tuple(names) for names in of_tiers if _deciding(conf, function) & set(names)] or tiers
    return [Rules(conf, action, names, queues, now, revocable) for names in tiers]


class Rules:
    """What ``plugins`` say of single pods for one action; the other arguments as for :func:`rules_of`."""

    def __init__(
        self,
        conf: SchedulerConf,
        action: str,
        plugins: Iterable[str],
        queues: Mapping[str, QueueFact],
        now: float,
        revocable: Container[str] = (),
    ) -> None:
        self.preempts = action == PREEMPT
        """Whether pods of the same queue go, not of others."""
        self._queues, self._revocable = queues, revocable
        self._now = now
        function = _FUNCTIONS[action]
        on = set(plugins)
        self._undecided = "" if on & _deciding(conf, function) else f"no plugin is listed with enable{function}"
        self.ancestors = conf.ancestor_reclaim_level if conf.has_hierarchy("capacity") else 0
        """How many ancestors of queues reclaim looks at."""
        self.by_tree = not self.preempts and "drf" in on and conf.has_hierarchy("drf")
        """Whether the plugin ``drf`` compares queues by their shares in a tree."""
        self.by_amounts = not self.preempts and (
            bool(on & _DIVIDING) or (conf.extensions.all_tiers_protect and not self.by_tree)
        )
        """Whether queues keep what they deserve."""
        self.takes_deserved = not self.preempts and (not self.by_tree or not _DIVIDING.isdisjoint(conf.plugins))
        """Whether a queue takes only what it deserves."""
        self._gang = "gang" in on
        self._whole_gangs = conf.extensions.whole_gangs or f"gang{action}" in conf.actions
        self._conformance, self._cooldown = "conformance" in on, "cdp" in on
        self.by_share = (
            self.preempts and "drf" in on and not ("priority" in on and _is_before(conf, "priority", "drf", function))
        )
        """Whether the plugin ``drf`` decides: where ``priority`` is in an earlier tier, Volcano does not ask it."""
        self.by_job_budgets = self.preempts and "tdm" in on
        """Whether the plugin ``tdm`` is asked, which has budgets of jobs."""
        self.by_priority = "priority" in on or (conf.extensions.all_tiers_protect and not self.by_share)
        """Whether pods go by their priority."""

    def binding(self, gang: Gang) -> Gang | None:
        """Return a gang as its minimum counts, None if it does not."""
        if self._whole_gangs:
            return gang
        return replace(gang, goes_whole=False) if self._gang else None

    def obstacle(self, preemptor: Preemptor) -> str:
        """Return why no pod goes for a group, whatever pods there are; '' if some may."""
        if self.by_job_budgets and any(pod.preemptable for pod in preemptor.pods):
            return "by the plugin tdm no pod is evicted for one that is preemptable itself (volcano.sh/preemptable)"
        return self._undecided

    def concerns(self, preemptor: Preemptor, candidate: EvictionCandidate) -> bool:
        """Return whether a pod is one of those that the action looks at: of the queue, or of the others."""
        return (candidate.queue == preemptor.queue) == self.preempts

    def protection(self, preemptor: Preemptor, candidate: EvictionCandidate) -> str:
        """Return why a pod that the action looks at may not go for a group, '' if it may."""
        pod = candidate.pod
        if self.preempts and self.by_priority and not _is_lower(preemptor, candidate):
            return NO_LOWER_PRIORITY
        queue = self._queues.get(candidate.queue)
        if not self.preempts and queue is not None and not queue.reclaimable:
            return f"protected by spec.reclaimable of queue {candidate.queue!r}"
        if all(each.ask.best_effort for each in preemptor.pods) and not pod.ask.best_effort:
            return "hold no pod that requests nothing, as the waiting pod does"
        if not pod.preemptable:
            return "protected by volcano.sh/preemptable"
        if self.by_job_budgets and candidate.node in self._revocable:
            return "protected by the plugin tdm on a node with volcano.sh/revocable-zone"
        if self._conformance and (pod.namespace == _SYSTEM_NAMESPACE or pod.priority > _HIGHEST_OF_USERS):
            return "protected by the plugin conformance"
        if self._cooldown and pod.cooldown and self._now - pod.scheduled_at <= pod.cooldown:
            return "protected by volcano.sh/cooldown-time"
        return ""


def _deciding(conf: SchedulerConf, function: str) -> frozenset[str]:
    """Return the plugins that have a function."""
    in_tree = function == _FUNCTIONS[RECLAIM] and conf.has_hierarchy("drf")
    return _DECIDING[function] | ({"drf"} if in_tree else set())


def _is_lower(preemptor: Preemptor, candidate: EvictionCandidate) -> bool:
    """Return whether a pod has a lower priority: that of the PodGroups counts, within one group that of the pods."""
    if candidate.group == preemptor.group.key:
        return candidate.priority < min(pod.priority for pod in preemptor.pods)
    return candidate.job_priority < preemptor.priority


def _is_before(conf: SchedulerConf, one: str, other: str, function: str) -> bool:
    """Return whether a plugin with this function on is in an earlier tier than another one."""
    for tier in conf.tiers:
        names = {plugin.name for plugin in tier if function not in plugin.off}
        if other in names:
            return False
        if one in names:
            return True
    return False
