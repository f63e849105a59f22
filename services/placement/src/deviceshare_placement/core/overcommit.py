"""Nodes that are overdrawn, since another scheduler bound pods there or the node has less than before.

What is bound holds what it has. Claims that are not bound yet give way: the newest first, as many as help.
"""

from collections import Counter

from deviceshare.allocation import Allocator
from deviceshare.model import Claim

from deviceshare_placement.core.cluster_state import ClusterState


def overdrawn(allocator: Allocator, node: str) -> Counter[str]:
    """Return by how much a node's cards and resources are overdrawn, in each amount's own unit; empty for none."""
    fact = allocator.node(node)
    excess: Counter[str] = Counter()
    if fact is None:
        return excess
    for card, used in zip(fact.cards, allocator.used_cards(node), strict=True):
        excess[f"{card.id} memory"] = used.memory - card.memory
        excess[f"{card.id} cores"] = used.cores - card.cores
        excess[f"{card.id} slots"] = used.slots - card.slots
    for resource, amount in allocator.used(node).items():
        excess[resource] = amount - fact.allocatable.get(resource, 0)
    return +excess


def overcommitted_claims(cluster: ClusterState, node: str) -> list[Claim]:
    """Return the claims on a node that have to be asked back, lest more be bound there than there is."""
    record = cluster.ledger(node)
    unbound = [
        claim
        for claim in record.claims.values()
        if (pod := cluster.pods.get(claim.uid)) is not None and not pod.fact.node and claim.id not in record.remove
    ]
    if not unbound or not overdrawn(cluster.allocator, node):
        return []
    released = [claim for claim in unbound if claim.withdraw or claim.id in record.withdraw]
    for claim in released:
        cluster.allocator.release(node, claim.uid)
    found = []
    excess = overdrawn(cluster.allocator, node)
    for claim in sorted(unbound, key=lambda claim: (claim.decided_at, claim.id), reverse=True):
        if not excess:
            break
        if claim in released:
            continue
        cluster.allocator.release(node, claim.uid)
        released.append(claim)
        if (rest := overdrawn(cluster.allocator, node)) != excess:
            found.append(claim)
            excess = rest
    for claim in released:
        cluster.charge(node, claim.uid)
    return found
