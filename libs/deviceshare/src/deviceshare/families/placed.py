"""Why a pod was placed where it is, derived from its claim."""

from collections.abc import Iterable

from deviceshare.families.registry import BY_NAME, caveats
from deviceshare.model import PLACED, Card, Choice, Claim, Explanation


def explain_claim(claim: Claim, node: str, cards: Iterable[Card] = ()) -> Explanation:
    """Return why a pod was placed on a node.

    Args:
        claim: its claim; without a ``choice`` only the place is known.
        node: the node whose ledger holds the claim.
        cards: the cards of that node: the environment of containers whose cards are not among them is not known.
    """
    choice = claim.choice or Choice()
    return Explanation(
        uid=claim.uid,
        namespace=claim.namespace,
        name=claim.name,
        at=claim.decided_at,
        decision=PLACED,
        node=node,
        message=placed_on(node),
        nodes=choice.nodes,
        feasible=choice.feasible,
        grants=claim.grants,
        environment=_environment(claim, cards),
        why=(_why(choice, devices=bool(claim.grants)),) if claim.choice is not None else (),
        gang=gang_line(claim.group, choice.fit, choice.minimum, choice.short) if choice.minimum > 1 else "",
        queue=choice.queue or claim.queue,
        group=claim.group,
        decided_by=claim.decided_by,
        caveats=caveats(claim.grants) + choice.caveats,
    )


def placed_on(node: str) -> str:
    """Return the message about a pod that was placed on a node."""
    return f"placed on {node}"


def gang_line(group: str, fit: int, minimum: int, short: Iterable[tuple[str, int, int]]) -> str:
    """Return whether a gang is ready; ``short``: the tasks below their minimum, how many fit and are needed."""
    tasks = "".join(f", {fitted} of {needed} of task {task}" for task, fitted, needed in short)
    if fit >= minimum and not tasks:
        return f"pod group {group} is ready, {fit} pods fit, {minimum} minAvailable"
    return f"pod group {group} is not ready, {fit} of {minimum} pods fit{tasks}"


def _why(choice: Choice, *, devices: bool) -> str:
    score = f"device score {choice.score:.2f}" if devices else "no devices requested"
    if choice.plugins:
        score += f", with {' and '.join(choice.plugins)} {choice.weighted_score:.2f}"
    return f"{_policies(choice)}, weight {choice.weight}: {score}; ties go to the lowest node name"


def _policies(choice: Choice) -> str:
    policy = _policy(choice.policy, choice.policy_of)
    if choice.card_policy is None:
        return f"policy {policy}"
    return f"policy {policy} for nodes and {_policy(choice.card_policy, choice.card_policy_of)} for cards"


def _policy(name: str, source: str) -> str:
    return f"{name or 'none'} (of the {source})" if source else name or "none"


def _environment(claim: Claim, cards: Iterable[Card]) -> dict[str, dict[str, str]]:
    known = {card.id: card for card in cards} if claim.grants else {}
    return {
        grant.container: BY_NAME[grant.family].environment(grant, [known[device.id] for device in grant.devices])
        for grant in claim.grants
        if grant.family in BY_NAME and all(device.id in known for device in grant.devices)
    }
