"""What the package ``preemption`` needs to know of the cluster: for whom pods may go, and which pods there are."""

from collections import Counter

from deviceshare.model import GroupKey, Now
from deviceshare.preemption import (
    PREEMPT,
    RECLAIM,
    Budgets,
    Candidate,
    Cluster,
    Gang,
    Preemption,
    Preemptor,
    Rules,
    preempt,
)
from deviceshare.queueing import Job
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.readiness import readiness
from deviceshare.scheduler.records import GroupRecord

_REVOCABLE_ZONE = "volcano.sh/revocable-zone"
"""Label of nodes."""
_ACTIONS = {"preempt": PREEMPT, "gangpreempt": PREEMPT, "reclaim": RECLAIM, "gangreclaim": RECLAIM}


def preempt_for(cluster: ClusterState, key: GroupKey, now: Now) -> Preemption:
    """Return which pods go for a waiting group by the configured actions."""
    conf = cluster.allocator.conf
    actions = list(dict.fromkeys(_ACTIONS[action] for action in conf.actions if action in _ACTIONS))
    if not actions:
        return Preemption(obstacle="neither the action preempt nor reclaim is configured")
    record = cluster.groups.get(key)
    if record is None:
        return Preemption(obstacle="there is no such group")
    if record.applies:
        return Preemption(obstacle="the group is not admitted to its queue")
    cluster.accounts.refresh()
    ready = readiness(cluster, record, {}, now.monotonic)
    if ready.job is None:
        return Preemption(obstacle="; ".join(sorted({obstacle.text for _, obstacle in ready.obstacles})))
    job = ready.job
    preemptor = Preemptor(group=job.group, queue=job.queue, priority=job.priority)
    if obstacle := _obstacle(cluster, job):
        return Preemption(obstacle=obstacle)
    revocable = _revocable(cluster) if "tdm" in conf.plugins else set()
    rules = [(action, Rules(conf, action, cluster.queues, now.wall, revocable)) for action in actions]
    with cluster.dispatcher.reservations.enforced(except_for=key):
        return preempt(_known(cluster, preemptor), preemptor, rules, conf.preemption_victims)


def _obstacle(cluster: ClusterState, job: Job) -> str:
    """Return why no pod goes for a job, whatever pods there are; '' if some may."""
    if any(pod.never_preempts for pod in job.group.together):
        return "spec.preemptionPolicy is Never"
    if job.group.ready and "gang" in _starving(cluster):
        return "the group has its minimum"
    return ""


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


def _known(cluster: ClusterState, preemptor: Preemptor) -> Cluster:
    candidates, leaving = [], []
    for uid, record in cluster.pods.items():
        fact = record.fact
        if not fact.node or fact.ended:
            continue
        if fact.terminating:
            leaving.append((uid, fact.node))
        elif fact.scheduler in cluster.schedulers:
            group = cluster.groups[fact.group]
            candidates.append(
                Candidate(
                    pod=fact,
                    node=fact.node,
                    queue=cluster.queue_of(fact),
                    job_priority=fact.priority if group.fact is None else cluster.priority_classes.of(group.fact),
                )
            )
    groups = {each.group for each in candidates}
    return Cluster(
        allocator=cluster.allocator,
        queues=cluster.accounts,
        candidates=candidates,
        gangs={key: _gang(cluster, cluster.groups[key], preemptor) for key in groups},
        budgets=Budgets(cluster.budgets.values(), (record.fact for record in cluster.pods.values())),
        job_budgets={key: _job_budget(cluster, cluster.groups[key]) for key in groups},
        leaving=leaving,
    )


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
        member.fact.uid: member.fact.task for member in members if member.placed and not member.fact.terminating
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
