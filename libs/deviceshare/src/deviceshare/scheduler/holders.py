"""Which pods hold what of a node or of a queue, to name those that others wait for."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deviceshare.model import ContainerGrant, PodFact, ResourceAmounts
from deviceshare.scheduler.cluster_state import ClusterState


class HolderOnNode(NamedTuple):
    """A pod (``namespace/name``) on a node, with its devices and its other resources."""

    ref: str
    grants: tuple[ContainerGrant, ...]
    resources: ResourceAmounts


def on_node(cluster: ClusterState, node: str) -> Iterator[HolderOnNode]:
    """Yield the pods with a claim on a node, then those that are bound there without one."""
    ledger = cluster.ledgers.get(node)
    claims = ledger.claims.values() if ledger is not None else ()
    for claim in claims:
        yield HolderOnNode(f"{claim.namespace}/{claim.name}", claim.grants, claim.resources)
    claimed = {claim.uid for claim in claims}
    for record in cluster.pods.values():
        fact = record.fact
        if fact.node == node and not fact.ended and fact.uid not in claimed:
            yield HolderOnNode(fact.ref, fact.held, cluster.allocator.amounts(fact.ask))


def in_queue(cluster: ClusterState, queue: str) -> Iterator[tuple[PodFact, Mapping[str, int]]]:
    """Yield the placed pods of a queue and of its descendants, with what they count there."""
    for record in cluster.pods.values():
        fact = record.fact
        if not (record.claims or fact.node) or fact.ended:
            continue
        path = cluster.accounts.account(cluster.queue_of(fact)).path
        if any(account.fact.name == queue for account in path):
            yield fact, dict(cluster.accounts.amounts(fact.uid))
