"""Why a pod goes to its node, which its claim says, and why it waits, which an explanation says.

``now`` is unix time; ``by`` is the name of the process that decided.
"""

from typing import Any, NamedTuple

import msgspec

from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.conf import BINPACK, NODEORDER, SchedulerConf
from deviceshare.families import gang_line
from deviceshare.model import (
    ADMITTED,
    PENDING,
    REJECTED,
    Choice,
    Explanation,
    PodFact,
    PodGroupFact,
    Refusal,
    admission_terms,
    unavailable,
)
from deviceshare.queueing import Decision, Group, Reason, Shortage
from deviceshare.scheduler.records import GroupRecord

_PLUGINS: dict[tuple[bool, bool], tuple[str, ...]] = {
    (nodeorder, binpack): (NODEORDER,) * nodeorder + (BINPACK,) * binpack
    for nodeorder in (False, True)
    for binpack in (False, True)
}
"""The plugins that score nodes, by whether ``nodeorder`` and ``binpack`` are configured."""


class Obstacle(NamedTuple):
    """Why a pod cannot be decided; ``reason`` is the reason of Volcano's PodGroup condition, where there is one."""

    text: str
    reason: str = ""


def choice(allocator: Allocator, pod: PodFact, placement: Placement, decision: Decision, queue: str) -> Choice:
    """Return why a pod goes to its node, for its claim; ``queue`` is that from which it was placed."""
    conf, group = allocator.conf, decision.group
    gang: dict[str, Any] = {}
    if group.minimum > 1:
        gang = {"fit": group.placed + decision.fitted, "minimum": group.minimum, "short": decision.short}
    return Choice(
        nodes=allocator.nodes,
        feasible=placement.feasible,
        weight=conf.weight,
        **_policies(conf.for_pod(pod.ask.policies)),
        score=placement.score,
        plugins=_PLUGINS[bool(conf.nodeorder), bool(conf.binpack)],
        weighted_score=placement.weighted_score,
        queue=pod.queue if pod.queue != queue else "",
        caveats=allocator.caveats(pod.ask),
        **gang,
    )


def _policies(conf: SchedulerConf) -> dict[str, Any]:
    """Return which policies chose node and cards, and what set them."""
    node_of = (conf.policies.node_from or "Pod") if conf.policies.node else ""
    card_of = (conf.policies.card_from or "Pod") if conf.policies.card else ""
    found = {"policy": conf.node_policy, "policy_of": node_of}
    if (conf.node_policy, node_of) != (conf.card_policy, card_of):
        found |= {"card_policy": conf.card_policy, "card_policy_of": card_of}
    return found


def gone(pod: PodFact, reported: str, now: float, by: str) -> Explanation:
    """Return that a pod is gone, with the last message that was reported of it."""
    return pending(pod, f"the pod is gone; before that: {reported}" if reported else "the pod is gone", now, by)


def waiting(pod: PodFact, why: Reason, decision: Decision, now: float, by: str, preemption: str = "") -> Explanation:
    """Return why a pod waits: for room, for its queue, or for the rest of its gang.

    ``preemption``: why no pods go for it, which ends the message as in kube-scheduler.
    """
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
    message = f"{gang}: {reason}" if gang else reason
    message = f"{message.rstrip('.')}. preemption: {preemption}" if preemption else message
    explanation = pending(pod, message, now, by, why=why, gang=gang)
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
        first_failing=room.first_failing,
        closest=room.closest,
        caveats=room.caveats,
        refused=room.problem is not None,
        gang=gang,
        queue=pod.queue,
        group=pod.group,
        decided_by=by,
    )


def held_up(pod: PodFact, obstacle: Obstacle, now: float, by: str) -> Explanation:
    """Return why a pod cannot be decided."""
    return msgspec.structs.replace(pending(pod, obstacle.text, now, by), gang_reason=obstacle.reason)


def admitted(record: GroupRecord, now: float, by: str, why_not: str = "") -> Explanation:
    """Return that a PodGroup was admitted to its queue; ``why_not``: why it gave back what that promised it."""
    explanation = _of_group(record, ADMITTED, f"pod group {record.key} is admitted to its queue", (), now, by)
    fact = record.fact
    if fact is None:
        return explanation
    returned = f"gave back what queue {fact.queue!r} promised it, for others: {why_not}" if why_not else ""
    terms = admission_terms(fact.queue, fact.min_resources)
    return msgspec.structs.replace(explanation, admission=terms, returned=returned)


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
    return unavailable(why.nodes, why.first_failing or why.refusals)


def members_missing(group: Group, exist: int, gated: int) -> Obstacle:
    """Return that a gang has fewer pods than it needs."""
    held_back = f", {gated} of them gated" if gated else ""
    tasks = "".join(f", task {task} waits for {needed} at least" for task, needed in group.tasks)
    text = f"pod group {group.key} is not ready, {exist} of {group.minimum} pods exist{held_back}{tasks}"
    return Obstacle(text, "NotEnoughPodsOfTask" if group.missing <= len(group.pods) else "NotEnoughTasks")


def _gang(decision: Decision) -> str:
    group = decision.group
    return gang_line(group.key, group.placed + decision.fitted, group.minimum, decision.short)
