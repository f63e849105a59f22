"""What is missing in a system to which nothing happens any more: pods, gangs, claims and outcomes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deviceshare_lab.checker.claims import Claims
from deviceshare_lab.checker.objects import violations
from deviceshare_lab.clusters.fields import Object, group_of, has_ended, name_of, waiting_reason


class Objects(NamedTuple):
    """The objects of the cluster, without the pods that another scheduler bound."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    groups: Sequence[Object]
    events: Sequence[Object]


def missing(objects: Objects, claims: Claims, schedulers: Sequence[str], may_wait: str, config: str) -> list[str]:
    """Return everything that is not as it must be; pods with the label ``may_wait`` need not be bound."""
    ours = [pod for pod in objects.pods if pod["spec"].get("schedulerName") in schedulers and not has_ended(pod)]
    return [
        *_of_waiting(ours, claims, may_wait),
        *of_claims(claims, {pod["metadata"]["uid"]: pod for pod in ours}),
        *violations(objects.nodes, objects.pods, objects.events, objects.groups, config),
    ]


def without_members(groups: Sequence[Object], foreign: Sequence[Object]) -> list[Object]:
    """Return PodGroups that need fewer pods of ours: another scheduler bound some of their members."""
    members = Counter(map(group_of, foreign))
    return [
        {**group, "spec": {**group["spec"], "minMember": group["spec"]["minMember"] - members[name_of(group)]}}
        for group in groups
    ]


def of_claims(claims: Claims, pods: Mapping[str, Object], undecided: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield what is wrong with the claims of a system with these pods, by uid, but for those of ``undecided`` uids."""
    present = [claim for claim in claims.all() if claim.uid not in undecided]
    for uid, count in Counter(claim.uid for claim in present).items():
        if count > 1:
            yield f"pod {uid} has {count} claims: {[claim for claim in present if claim.uid == uid]}"
    for claim in present:
        what = f"claim {claim.id} of {claim.name} ({claim.uid}) on {claim.node}"
        pod = pods.get(claim.uid)
        if pod is None:
            yield f"{what} is left over: there is no such pod that has not ended"
            continue
        if pod["spec"].get("nodeName") != claim.node:
            yield f"{what}, but the pod is on {pod['spec'].get('nodeName') or 'no node'}"
        outcomes = [each for each in claims.outcomes.get(claim.node, ()) if each.claim == claim.id]
        if (claim.id, claim.uid, "bound") not in outcomes:
            yield f"{what} has the outcomes {outcomes}"


def _of_waiting(pods: Sequence[Object], claims: Claims, may_wait: str) -> Iterator[str]:
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        message = waiting_reason(pod)
        what = f"{name_of(pod)} ({pod['metadata']['uid']})"
        if may_wait not in pod["metadata"].get("labels", {}):
            yield f"{what} waits although there is room: {message or 'no reason'}"
        elif not message:
            yield f"{what} waits without a reason"
        elif pod["metadata"]["uid"] not in claims.explained:
            yield f"{what} waits without an explanation in EXPLAIN"
