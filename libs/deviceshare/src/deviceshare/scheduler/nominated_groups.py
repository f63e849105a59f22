"""The nominations of all ledgers, as far as a group of higher priority may take their room."""

from collections.abc import Container

from deviceshare.model import GroupKey, PodFact
from deviceshare.preemption import RECLAIM, NominatedGroup
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.going_pods import Nomination


def level_of(cluster: ClusterState, fact: PodFact) -> tuple[str, int]:
    """Return the queue of a pod, and the priority of its job: that of its PodGroup, or its own without one."""
    group = cluster.groups[fact.group].fact
    if group is None:
        return fact.queue, fact.priority
    return group.queue, cluster.priority_classes.of(group)


def nominated_groups(cluster: ClusterState, spared: Container[str]) -> list[NominatedGroup]:
    """Return the nominations whose pods are known and wait for pods that go.

    Not those that wait for a pod that does not go: it is ``spared``, or has no eviction that belongs to their claims.
    """
    return [found for each in cluster.going.nominations if (found := _nominated(cluster, each, spared)) is not None]


def _nominated(cluster: ClusterState, nomination: Nomination, spared: Container[str]) -> NominatedGroup | None:
    pods = [cluster.pods.get(claim.uid) for claim in nomination.claims.values()]
    facts = [pod.fact for pod in pods if pod is not None and not pod.fact.node]
    if len(facts) < len(pods):
        return None
    going: dict[str, str] = {}
    sparable: dict[str, list[str]] = {}
    reclaims = False
    for uid in nomination.waits_for:
        victim = cluster.pods.get(uid)
        if victim is None or victim.fact.ended:
            continue
        eviction, _ = nomination.evictions.get(uid, (None, ""))
        if uid in spared or not (victim.fact.terminating or eviction is not None):
            return None
        going[uid] = victim.fact.node
        if eviction is not None and not victim.fact.terminating:
            alone = _may_stay_alone(cluster, victim.fact.group)
            if alone or not eviction.go:
                sparable.setdefault(uid if alone else victim.fact.group, []).append(uid)
        reclaims = reclaims or (eviction is not None and eviction.action == RECLAIM)
    levels = [level_of(cluster, fact) for fact in facts]
    return NominatedGroup(
        claims=tuple(sorted(nomination.claims)),
        pods=tuple(sorted((claim.uid, node) for (node, _), claim in nomination.claims.items())),
        groups=frozenset(fact.group for fact in facts),
        queues=frozenset(queue for queue, _ in levels),
        priority=max(priority for _, priority in levels),
        going=going,
        unknown=tuple(uid for uid in nomination.waits_for if uid not in cluster.pods),
        sparable=tuple(tuple(together) for _, together in sorted(sparable.items())),
        reclaims=reclaims,
    )


def _may_stay_alone(cluster: ClusterState, key: GroupKey) -> bool:
    """Return whether each pod of a group that goes may stay without the others: the group has its minimum anyway."""
    group = cluster.groups[key]
    if group.fact is None or group.fact.min_member <= 1:
        return True
    staying = (cluster.pods[uid] for uid in group.members if uid not in cluster.going)
    placed = sum(pod.placed and not pod.fact.terminating for pod in staying)
    return placed >= group.fact.min_member and not group.fact.min_task_member
