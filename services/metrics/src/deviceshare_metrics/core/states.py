"""The states of nodes, pods and claims, and the number of objects in each.

Counting needs no snapshot: a status is requested several times a second.
"""

from collections import Counter
from typing import NamedTuple

from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Claim, NodeFact, Outcome

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.state_store import StateStore

Outcomes = dict[tuple[str, str], Outcome]
"""Outcomes by the id and the pod's uid of their claims: an outcome belongs to a claim only if both match."""
OTHER: api.PodState = "OtherScheduler"
"""The state of waiting pods that deviceshare does not place."""
_OUTCOMES: dict[str, api.ClaimState] = {BOUND: "bound", REFUSED: "refused", WITHDRAWN: "withdrawn"}


class Counts(NamedTuple):
    """The number of objects in each state, and of problems of all objects."""

    nodes: Counter[api.NodeState]
    pods: Counter[api.PodState]
    claims: Counter[api.ClaimState]
    problems: int


def count(store: StateStore) -> Counts:
    """Count the objects of a store by state, and their problems."""
    outcomes = outcomes_of(store)
    best = best_claims(store, outcomes)
    return Counts(
        nodes=Counter(map(node_state, store.nodes.values())),
        pods=Counter(pod_state(pod, best.get(pod.uid)) for pod in store.pods.values())
        + Counter({OTHER: len(store.others)}),
        claims=Counter(
            claim_state(claim, outcomes.get((claim.id, claim.uid)))
            for ledger in store.ledgers.values()
            for claim in ledger.claims
        ),
        problems=len(store.configuration_problems)
        + len(store.invalid)
        + sum(
            len(fact.problems)
            for facts in (store.nodes, store.pods, store.groups, store.queues)
            for fact in facts.values()
        ),
    )


def outcomes_of(store: StateStore) -> Outcomes:
    """Return all outcomes."""
    return {(outcome.claim, outcome.uid): outcome for each in store.outcomes.values() for outcome in each.outcomes}


def claim_state(claim: Claim, outcome: Outcome | None) -> api.ClaimState:
    """Return the state of a claim; an outcome of an unknown state is ignored."""
    known = _OUTCOMES.get(outcome.state) if outcome is not None else None
    return known or ("withdrawing" if claim.withdraw else "open")


class Placed(NamedTuple):
    """A pod's claim. ``holds``: it is neither refused nor withdrawn."""

    holds: bool
    decided_at: float
    node: str
    claim: Claim
    bound: bool


def best_claims(store: StateStore, outcomes: Outcomes) -> dict[str, Placed]:
    """Return the claim of each pod by uid; of several claims one that holds devices, then the latest."""
    best: dict[str, Placed] = {}
    for ledger in store.ledgers.values():
        for claim in ledger.claims:
            state = claim_state(claim, outcomes.get((claim.id, claim.uid)))
            placed = Placed(
                state not in ("refused", "withdrawn"), claim.decided_at, ledger.node, claim, state == "bound"
            )
            other = best.get(claim.uid)
            if other is None or (placed[:3], claim.id) > (other[:3], other.claim.id):
                best[claim.uid] = placed
    return best


def node_state(node: api.Node | NodeFact) -> api.NodeState:
    """Return the state of a node; ``not_ready`` takes precedence."""
    if not node.ready:
        return "not_ready"
    return "unschedulable" if node.unschedulable else "ready"


def pod_state(pod: PodSeen, placed: Placed | None) -> api.PodState:
    """Return the state of a pod; it is bound as soon as its fact or the outcome of its claim shows it."""
    if pod.ended:
        return "Ended"
    if pod.node or (placed is not None and placed.bound):
        return "Bound"
    if placed is not None and placed.holds:
        return "Claimed"
    return "Gated" if pod.gates else "Pending"
