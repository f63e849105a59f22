"""What the package ``preemption`` needs to know of the cluster: for whom pods may go, and which pods there are."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace

from deviceshare.model import GroupKey, Now, PodFact
from deviceshare.preemption import (
    NO_POD,
    PREEMPT,
    RECLAIM,
    Budgets,
    CandidateTable,
    EvictionCandidate,
    Gang,
    NominatedGroup,
    Preemption,
    PreemptionInput,
    Preemptor,
    lower_nominations,
    may_find,
    preempt,
    rules_of,
)
from deviceshare.queueing import Group, Job
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.nominated_groups import level_of, nominated_groups
from deviceshare.scheduler.readiness import readiness
from deviceshare.scheduler.records import GroupRecord

_REVOCABLE_ZONE = "volcano.sh/revocable-zone"
"""Label of nodes."""
MAX_SPARED = 10_000
"""Pods that are spared at the same time; the one that was spared first may go again."""
NOT_GONE = "hold a pod that has not gone in time"
"""Why a pod is spared that was evicted, or is terminating."""
_ACTIONS = {"preempt": PREEMPT, "gangpreempt": PREEMPT, "reclaim": RECLAIM, "gangreclaim": RECLAIM}


class Preempting:
    """Finds the pods that go for a group; keeps the candidates from the first call on.

    What has changed of them is read where some may go, not for each group for which none does.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._table: CandidateTable | None = None
        self._budgets = Budgets(lambda: (record.fact for record in cluster.pods.values()))
        self._budgets_version = -1
        """:attr:`.ClusterState.budgets_version` of these."""
        self._outdated: set[str] = set()
        """The candidates that are noted in the table, and have to be put."""
        self._spared: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Pods that do not go, until when, monotonic, and why."""
        self._late_at: dict[str, float] = {}
        """When the pods that are terminating should have gone, monotonic; bounded by the pods."""
        self._spared_until = inf
        self._nominations: list[NominatedGroup] = []
        """Those whose room a group may take."""
        self._nominations_at = (-1, -1)
        """The versions of the cluster and of its nominations when they were read."""

    @property
    def actions(self) -> list[str]:
        """The configured actions, in turn."""
        configured = self._cluster.allocator.conf.actions
        return list(dict.fromkeys(_ACTIONS[action] for action in configured if action in _ACTIONS))

    def spare(self, uid: str, until: float, why: str) -> None:
        """Neither let a pod go nor count on its end for a time: it does not go, or may not."""
        self._spared[uid] = (until, why)
        self._spared_until = min(self._spared_until, until)
        self._cluster.mark_moved((uid,))
        if len(self._spared) > MAX_SPARED:
            self._cluster.mark_moved((self._spared.popitem(last=False)[0],))

    def end_sparing(self, now: float) -> None:
        """Let the pods go again that were spared until now."""
        if now < self._spared_until:
            return
        for uid in [uid for uid, at in self._late_at.items() if at <= now] if self._late_at else ():
            del self._late_at[uid]
            self.spare(uid, inf, NOT_GONE)
        if self._spared and (over := [uid for uid, (until, _) in self._spared.items() if until <= now]):
            for uid in over:
                del self._spared[uid]
            self._cluster.mark_moved(over)
        self._spared_until = min((*(until for until, _ in self._spared.values()), *self._late_at.values()), default=inf)

    @property
    def spared_until(self) -> float:
        """When the first pod may go again, or one that is terminating is late, monotonic; ``inf`` for none.

        A pod that is gone since then may count once.
        """
        return self._spared_until

    def preempt(self, key: GroupKey, now: Now, *, explain: bool, actions: Sequence[str] | None = None) -> Preemption:
        """Return which pods go for a waiting group by these actions in turn, None: by the configured ones.

        ``explain``: see :func:`.preempt`; without it, where no pod might go and none is terminating, it is not looked
        at whether the group fits.
        """
        cluster = self._cluster
        conf = cluster.allocator.conf
        actions = self.actions if actions is None else actions
        if not actions:
            return Preemption(obstacle="neither the action preempt nor reclaim is configured")
        record = cluster.groups.get(key)
        if record is None:
            return Preemption(obstacle="there is no such group", of_group=True)
        if record.applies:
            return Preemption(obstacle="the group is not admitted to its queue", of_group=True)
        cluster.accounts.refresh()
        ready = readiness(cluster, record, {}, now.monotonic)
        if ready.job is None:
            why = "; ".join(sorted({obstacle.text for _, obstacle in ready.obstacles}))
            return Preemption(obstacle=why, of_group=True)
        job = ready.job
        group, obstacle = _group(cluster, record, job)
        if obstacle:
            return Preemption(obstacle=obstacle, of_group=True)
        preemptor = Preemptor(group=group, queue=job.queue, priority=job.priority)
        revocable = _revocable(cluster) if "tdm" in conf.plugins else set()
        rules = [(action, rules_of(conf, action, cluster.queues, now.wall, revocable)) for action in actions]
        table = self._noted(now.monotonic)
        work = self._read_nominations()
        nominations = lower_nominations(preemptor, self._nominations)
        if not (explain or nominations or may_find(table, preemptor, rules)):
            return Preemption(obstacle=NO_POD, work=work)
        for uid in sorted(self._outdated):
            self._put(table, uid)
        self._outdated.clear()
        known = PreemptionInput(
            allocator=cluster.allocator,
            queues=cluster.accounts,
            candidates=table,
            gang=lambda group: _gang(cluster, cluster.groups[group], preemptor),
            budgets=self._budgets,
            spared=[
                (pod.fact.node, why)
                for uid, (_, why) in self._spared.items()
                if (pod := cluster.pods.get(uid)) is not None
            ],
            job_budget=lambda group: _job_budget(cluster, cluster.groups[group]),
            nominations=nominations,
        )
        with cluster.dispatcher.reservations.enforced(except_for=key):
            found = preempt(known, preemptor, rules, conf.preemption_victims, explain=explain)
        return replace(found, work=found.work + work)

    def _read_nominations(self) -> int:
        """Read the nominations if something has changed; return the work, in placements."""
        versions = (self._cluster.changes, self._cluster.going.version)
        if versions == self._nominations_at:
            return 0
        self._nominations, self._nominations_at = nominated_groups(self._cluster, self._spared), versions
        return len(self._nominations)

    def protecting_budget(self, uid: str, now: float) -> str:
        """Return the budget that does not allow a pod to be evicted now, in words, '' for none."""
        self._noted(now)
        return self._budgets.why_protected(uid)

    def _noted(self, now: float) -> CandidateTable:
        """Return the table, in which all candidates are noted as they are now; those outdated are not put yet."""
        cluster = self._cluster
        self.end_sparing(now)
        if self._table is None or cluster.moved is None:
            self._table = CandidateTable(cluster.allocator)
            self._budgets.forget_pods()
            self._outdated.clear()
            cluster.moved = {*cluster.pods, *cluster.unknown_claims, *self._spared, *self._late_at}
        table, moved, cluster.moved = self._table, cluster.moved, set()
        moved_budgets = self._read_budgets(moved)
        self._outdated |= moved
        pods, schedulers = cluster.pods, cluster.schedulers
        for uid in sorted(moved):
            record = pods.get(uid)
            fact = None if record is None or uid in self._spared else record.fact
            if fact is None or not fact.node or fact.ended:
                table.drop(uid)
                self._outdated.discard(uid)
                self._late_at.pop(uid, None)
                if record is None:
                    self._spared.pop(uid, None)
                if node := self._to_be_removed(uid):
                    table.leaving[uid] = node
            elif fact.terminating or fact.scheduler not in schedulers or uid in cluster.going:
                table.drop(uid)
                self._outdated.discard(uid)
                if fact.terminating:
                    table.leaving[uid] = fact.node
                    late = now + fact.grace + cluster.allocator.conf.preemption_timeout
                    self._spared_until = min(self._spared_until, self._late_at.setdefault(uid, late))
            else:
                if table.leaving:
                    table.leaving.pop(uid, None)
                table.note(uid, self._level_if_may_go(fact))
        for uid in moved_budgets - moved:
            if uid in self._outdated or table.get(uid) is not None:
                table.note(uid, self._level_if_may_go(pods[uid].fact))
                table.set_budget(uid, self._budgets.of(uid))
        return table

    def _to_be_removed(self, uid: str) -> str:
        """Return the node of a claim of a pod that leaves the ledger with its next write, '' if there is none.

        Until then it is charged: without it other pods would go for room that is as good as free.
        """
        ledgers = self._cluster.ledgers
        for claim, node in self._cluster.claims_of(uid):
            if claim in ledgers[node].remove and not ledgers[node].claims[claim].waits_for:
                return node
        return ""

    def _read_budgets(self, moved: Iterable[str]) -> set[str]:
        """Read the budgets, and the pods that have moved; return the pods that they may protect now, or no more."""
        cluster, budgets = self._cluster, self._budgets
        if self._budgets_version != cluster.budgets_version:
            self._budgets_version = cluster.budgets_version
            budgets.put(cluster.budgets)
        facts = ((uid, None if (pod := cluster.pods.get(uid)) is None else pod.fact) for uid in moved)
        return budgets.update(facts, cluster.going)

    def _level_if_may_go(self, fact: PodFact) -> tuple[str, int] | None:
        """Return the level of a candidate, None if neither it nor its budgets let it go for any group."""
        return level_of(self._cluster, fact) if fact.preemptable and not self._budgets.protecting(fact.uid) else None

    def _put(self, table: CandidateTable, uid: str) -> None:
        fact = self._cluster.pods[uid].fact
        queue, priority = table.noted(uid) or level_of(self._cluster, fact)
        table.put(
            EvictionCandidate(pod=fact, node=fact.node, queue=queue, job_priority=priority), self._budgets.of(uid)
        )


def _group(cluster: ClusterState, record: GroupRecord, job: Job) -> tuple[Group, str]:
    """Return the pods of a job for which others may go, and why none goes, whatever pods there are; '' if some may."""
    group = job.group
    able = tuple(pod for pod in group.pods if not pod.never_preempts)
    if len(able) < len(group.pods):
        group = replace(group, pods=able, best_effort=-1)
        if group.missing > len(able) or not able or group.short(Counter(pod.task for pod in able)):
            return group, "spec.preemptionPolicy is Never"
    # The group's own minimum, which counts as well where no plugin makes it start as a whole.
    minimum = 1 if record.fact is None else record.fact.min_member
    if group.placed >= minimum and "gang" in _starving(cluster):
        return group, "the group has its minimum"
    return group, ""


def _starving(cluster: ClusterState) -> set[str]:
    """Return the plugins that say which jobs starve: those of the first tier that has some.

    Source: Volcano pkg/scheduler/framework/session_plugins.go (JobStarving): ``gang`` says jobs below their minimum,
    ``priority`` all that have waiting pods.
    """
    for tier in cluster.allocator.conf.tiers:
        found = {plugin.name for plugin in tier if "JobStarving" not in plugin.off} & {"gang", "priority"}
        if found:
            return found
    return set()


def _revocable(cluster: ClusterState) -> set[str]:
    nodes = (cluster.allocator.node(name) for name in cluster.allocator.node_names)
    return {node.name for node in nodes if node is not None and node.labels.get(_REVOCABLE_ZONE)}


def _job_budget(cluster: ClusterState, group: GroupRecord) -> int:
    """Return how many pods of a group the plugin ``tdm`` lets go. Source: Volcano's plugin (getMaxPodEvictNum)."""
    if group.fact is None or group.fact.disruption_limit is None:
        return 1
    members = [cluster.pods[uid].fact for uid in group.members]
    expected = sum(not pod.ended for pod in members)
    running = sum(bool(pod.node) and not (pod.ended or pod.terminating) for pod in members)
    return group.fact.disruption_limit.allowed(expected, running)


def _gang(cluster: ClusterState, group: GroupRecord, preemptor: Preemptor) -> Gang:
    members = [cluster.pods[uid] for uid in group.members]
    placed: dict[str, str] = {
        member.fact.uid: member.fact.task
        for member in members
        if member.placed and not (member.fact.terminating or member.fact.uid in cluster.going)
    }
    if group.fact is None:
        return Gang(placed=placed, minimum=0)
    minimums = group.fact.min_task_member
    return Gang(
        placed=placed,
        minimum=group.fact.min_member,
        # As in readiness: they count where the gang's own minimum does not undercut their sum.
        tasks=minimums if group.fact.min_member >= sum(minimums.values()) else {},
        joining=Counter(pod.task for pod in preemptor.pods) if group.key == preemptor.group.key else {},
    )
