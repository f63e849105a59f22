"""Overcommitted nodes: another scheduler bound pods there, or the node has less than before.

Bound pods keep what they hold. Claims that are not bound yet are withdrawn: the newest first, as many as help.
"""

from collections import Counter

from deviceshare.allocation import Allocator
from deviceshare.model import Claim
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.state import Trial


def excess(allocator: Allocator, node: str) -> Counter[str]:
    """Return by how much a node's cards and resources are overcommitted, in the unit of each amount; empty for none."""
    fact = allocator.node(node)
    found: Counter[str] = Counter()
    if fact is None:
        return found
    for card, used in zip(fact.cards, allocator.used_cards(node), strict=True):
        found[f"{card.id} memory"] = used.memory - card.memory
        found[f"{card.id} cores"] = used.cores - card.cores
        found[f"{card.id} slots"] = used.slots - card.slots
    for resource, amount in allocator.used(node).items():
        found[resource] = amount - fact.allocatable.get(resource, 0)
    return +found


def overcommitted_claims(cluster: ClusterState, node: str) -> list[Claim]:
    """Return the claims on a node that must be withdrawn so that no more is bound there than the node has."""
    record = cluster.ledger(node)
    unbound = [
        claim
        for claim in record.claims.values()
        if (pod := cluster.pods.get(claim.uid)) is not None and not pod.fact.node and claim.id not in record.remove
    ]
    if not unbound or not excess(cluster.allocator, node):
        return []
    withdrawn = [claim for claim in unbound if claim.withdraw or claim.id in record.withdraw]
    found = []
    with Trial(cluster.allocator.undo_log):
        for claim in withdrawn:
            cluster.allocator.release(node, claim.uid)
        left = excess(cluster.allocator, node)
        for claim in sorted(unbound, key=lambda claim: (claim.decided_at, claim.id), reverse=True):
            if not left:
                break
            if claim in withdrawn:
                continue
            cluster.allocator.release(node, claim.uid)
            if (rest := excess(cluster.allocator, node)) != left:
                found.append(claim)
                left = rest
    return found
