"""The explanation of a placed pod as placement published it when claims did not carry it, for comparison."""

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import BINPACK, NODEORDER
from deviceshare.families import BY_NAME, caveats
from deviceshare.model import PLACED, Explanation, PodFact
from deviceshare.queueing import Decision


def published(
    allocator: Allocator, pod: PodFact, placement: Placement, decision: Decision, at: float, by: str
) -> Explanation:
    """Return why a pod goes to its node."""
    conf, group = allocator.conf, decision.group
    node = allocator.node(placement.node)
    cards = {card.id: card for card in node.cards} if node is not None and placement.grants else {}
    score = f"device score {placement.score:.2f}" if placement.grants else "no devices requested"
    if scored := [name for name, values in ((NODEORDER, conf.nodeorder), (BINPACK, conf.binpack)) if values]:
        score += f", with {' and '.join(scored)} {placement.weighted_score:.2f}"
    return Explanation(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        at=at,
        decision=PLACED,
        node=placement.node,
        message=f"placed on {placement.node}",
        grants=placement.grants,
        queue=pod.queue,
        group=pod.group,
        decided_by=by,
        nodes=allocator.nodes,
        feasible=placement.feasible,
        environment={
            grant.container: BY_NAME[grant.family].environment(grant, [cards[device.id] for device in grant.devices])
            for grant in placement.grants
        },
        why=(f"policy {conf.policy or 'none'}, weight {conf.weight}: {score}; ties go to the lowest node name",),
        gang=_gang(decision) if group.minimum > 1 else "",
        caveats=caveats(placement.grants) + allocator.caveats(pod.ask),
    )


def _gang(decision: Decision) -> str:
    group = decision.group
    fit = group.placed + decision.fitted
    if fit >= group.minimum and not decision.short:
        return f"pod group {group.key} is ready, {fit} pods fit, {group.minimum} minAvailable"
    tasks = "".join(f", {fitted} of {needed} of task {task}" for task, fitted, needed in decision.short)
    return f"pod group {group.key} is not ready, {fit} of {group.minimum} pods fit{tasks}"
