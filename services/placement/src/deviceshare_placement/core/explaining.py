"""Turning decisions into explanations: why a pod goes to its node, or why it waits.

``now`` is unix time; ``by`` is the name of the process that decided.
"""

from typing import NamedTuple

import msgspec
from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.conf import BINPACK, NODEORDER
from deviceshare.families import BY_NAME, caveats
from deviceshare.model import (
    ADMITTED,
    PENDING,
    PLACED,
    REJECTED,
    Claim,
    ContainerGrant,
    Explanation,
    PodFact,
    PodGroupFact,
    Refusal,
    unavailable,
)
from deviceshare.queueing import Decision, Group, Reason, Shortage
from deviceshare_bus.core import ExpireOthers, PutLatest
from deviceshare_bus.subjects import Stream, explain

from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.records import GroupRecord

EXPLANATION_TTL = 24 * 3600.0
"""Seconds for which the server keeps the last explanation of an object that is gone."""


class Obstacle(NamedTuple):
    """Why a pod cannot be decided; ``reason`` is the reason of Volcano's PodGroup condition, where there is one."""

    text: str
    reason: str = ""


def publish(explanation: Explanation, *, ttl: float | None = None) -> PutLatest:
    """Return the command that publishes an explanation, for ``ttl`` seconds or, with None, without limit."""
    return PutLatest(explain(explanation.uid), explanation, ttl)


def expire_others(cluster: ClusterState) -> ExpireOthers:
    """Return the command that lets explanations expire whose objects were deleted while the service did not run."""
    groups = (group.fact for group in cluster.groups.values())
    uids = {*cluster.pods, *(fact.uid for fact in groups if fact is not None)} - {""}
    return ExpireOthers(Stream.EXPLAIN, tuple(map(explain, sorted(uids))), EXPLANATION_TTL)


def placed(
    allocator: Allocator, pod: PodFact, placement: Placement, decision: Decision, now: float, by: str
) -> Explanation:
    """Return why a pod goes to its node."""
    conf, group = allocator.conf, decision.group
    node = allocator.node(placement.node)
    cards = {card.id: card for card in node.cards} if node is not None and placement.grants else {}
    environment = {
        grant.container: BY_NAME[grant.family].environment(grant, [cards[device.id] for device in grant.devices])
        for grant in placement.grants
    }
    policy = conf.policy or "none"
    score = f"device score {placement.score:.2f}" if placement.grants else "no devices requested"
    if scored := [name for name, values in ((NODEORDER, conf.nodeorder), (BINPACK, conf.binpack)) if values]:
        score += f", with {' and '.join(scored)} {placement.weighted_score:.2f}"
    why = (f"policy {policy}, weight {conf.weight}: {score}; ties go to the lowest node name",)
    return msgspec.structs.replace(
        _placed_on(pod, placement.node, placement.grants, now, by),
        nodes=allocator.nodes,
        feasible=placement.feasible,
        environment=environment,
        why=why,
        gang=_gang(decision) if group.minimum > 1 else "",
        caveats=caveats(placement.grants) + allocator.caveats(pod.ask),
    )


def claimed(pod: PodFact, claim: Claim, node: str, now: float) -> Explanation:
    """Return where a pod was found to be claimed by another process, whose reasons are not known."""
    return _placed_on(pod, node, claim.grants, now, claim.decided_by)


def _placed_on(pod: PodFact, node: str, grants: tuple[ContainerGrant, ...], now: float, by: str) -> Explanation:
    return Explanation(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        at=now,
        decision=PLACED,
        node=node,
        message=f"placed on {node}",
        grants=grants,
        queue=pod.queue,
        group=pod.group,
        decided_by=by,
        caveats=caveats(grants),
    )


def gone(pod: PodFact, reported: str, now: float, by: str) -> Explanation:
    """Return that a pod is gone, with the last message that was reported of it."""
    return pending(pod, f"the pod is gone; before that: {reported}" if reported else "the pod is gone", now, by)


def waiting(pod: PodFact, why: Reason, decision: Decision, now: float, by: str) -> Explanation:
    """Return why a pod waits: for room, for its queue, or for the rest of its gang."""
    group = decision.group
    gang = ""
    reason = ""
    if group.minimum > 1:
        gang = _gang(decision)
    if why is None:
        others = next((other for _, other in decision.waiting if other is not None), None)
        reason = (
            "this pod would fit, others do not: " + describe(others, f"Pod {pod.ref}") if others is not None else ""
        )
    else:
        reason = describe(why, f"Pod {pod.ref}")
    explanation = pending(pod, f"{gang}: {reason}" if gang else reason, now, by, why=why, gang=gang)
    return msgspec.structs.replace(explanation, gang_ready=group.ready)


def pending(pod: PodFact, message: str, now: float, by: str, *, why: Reason = None, gang: str = "") -> Explanation:
    """Return that a pod waits, with a message and the refusals behind it."""
    room = why if isinstance(why, Unplaceable) else Unplaceable(0, (why.refusal,) if why is not None else ())
    return Explanation(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        at=now,
        decision=PENDING,
        message=message,
        nodes=room.nodes,
        refusals=room.refusals,
        closest=room.closest,
        caveats=room.caveats,
        gang=gang,
        queue=pod.queue,
        group=pod.group,
        decided_by=by,
    )


def held_up(pod: PodFact, obstacle: Obstacle, now: float, by: str) -> Explanation:
    """Return why a pod cannot be decided."""
    return msgspec.structs.replace(pending(pod, obstacle.text, now, by), gang_reason=obstacle.reason)


def admitted(record: GroupRecord, now: float, by: str) -> Explanation:
    """Return that a PodGroup was admitted to its queue."""
    return _of_group(record, ADMITTED, f"pod group {record.key} is admitted to its queue", (), now, by)


def rejected(record: GroupRecord, why: str, shortage: Shortage | None, now: float, by: str) -> Explanation:
    """Return why a PodGroup was not admitted to its queue; ``shortage`` None: the queue admits no PodGroup."""
    return _of_group(record, REJECTED, why, () if shortage is None else (shortage.refusal,), now, by)


def group_gone(fact: PodGroupFact, now: float, by: str) -> Explanation:
    """Return that a PodGroup is gone."""
    return _of_group(GroupRecord(fact.key, fact), REJECTED, "the pod group is gone", (), now, by)


def _of_group(
    record: GroupRecord, decision: str, message: str, refusals: tuple[Refusal, ...], now: float, by: str
) -> Explanation:
    fact = record.fact or PodGroupFact(key=record.key)
    namespace, _, name = record.key.partition("/")
    return Explanation(
        uid=fact.uid,
        namespace=namespace,
        name=name,
        at=now,
        decision=decision,
        message=message,
        refusals=refusals,
        queue=fact.queue,
        group=record.key,
        decided_by=by,
    )


def describe(why: Reason, subject: str) -> str:
    """Return why a pod is not placed, as one line."""
    if why is None:
        return ""
    if isinstance(why, Shortage):
        return str(why)
    if why.problem is not None:
        return str(msgspec.structs.replace(why.problem, subject=subject))
    return unavailable(why.nodes, why.refusals)


def members_missing(group: Group, exist: int, gated: int) -> Obstacle:
    """Return that a gang has fewer pods than it needs."""
    held_back = f", {gated} of them gated" if gated else ""
    tasks = "".join(f", task {task} waits for {needed} at least" for task, needed in group.tasks)
    text = f"pod group {group.key} is not ready, {exist} of {group.minimum} pods exist{held_back}{tasks}"
    return Obstacle(text, "NotEnoughPodsOfTask" if group.missing <= len(group.pods) else "NotEnoughTasks")


def _gang(decision: Decision) -> str:
    group = decision.group
    fit = group.placed + decision.fitted
    if fit >= group.minimum and not decision.short:
        return f"pod group {group.key} is ready, {fit} pods fit, {group.minimum} minAvailable"
    tasks = "".join(f", {fitted} of {needed} of task {task}" for task, fitted, needed in decision.short)
    return f"pod group {group.key} is not ready, {fit} of {group.minimum} pods fit{tasks}"
