"""Who holds what a pod lacks: the pods on the closest nodes, or those of its queue. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from deviceshare.allocation import Unplaceable
from deviceshare.model import ContainerGrant, PodFact, shown, unit_of
from deviceshare.queueing import Shortage
from deviceshare.scheduler.cluster_state import ClusterState

from deviceshare_cli.pods import devices_of, shown_devices
from deviceshare_cli.whatif.fitting import Fit

MAX_NODES = 3
"""The most nodes whose pods are named."""
MAX_PODS = 10
"""The most pods that are named of a node or a queue."""


class Holder(NamedTuple):
    """A pod that holds what is missing: where, and how much."""

    where: str
    pod: str
    holds: str


def holders(cluster: ClusterState, fit: Fit) -> list[Holder]:
    """Return the pods that hold what a candidate lacks; none if nothing but its request is in the way."""
    if isinstance(fit.reason, Shortage):
        return _of_queue(cluster, fit.reason)
    if not isinstance(fit.reason, Unplaceable):
        return []
    lacking = {refusal.resource for refusal in fit.reason.refusals if refusal.resource}
    found: list[Holder] = []
    short = [each for each in fit.reason.closest if any(one.asked or one.needed for one in each.refusals)]
    for near in short[:MAX_NODES]:
        cards = {card.id for card in near.cards if card.codes}
        holding = [
            Holder(f"node {near.node}", name, shown_devices(devices_of(grants)) or resources)
            for name, grants, resources in _on_node(cluster, near.node)
            if any(device.id in cards for grant in grants for device in grant.devices)
            or (not cards and any(resource in resources for resource in lacking))
        ]
        found += holding[:MAX_PODS]
    return found


def _on_node(cluster: ClusterState, node: str) -> Iterator[tuple[str, tuple[ContainerGrant, ...], str]]:
    """Yield the pods that hold something on a node: name, devices, other resources."""
    ledger = cluster.ledgers.get(node)
    claimed = {claim.uid for claim in ledger.claims.values()} if ledger is not None else set()
    for claim in ledger.claims.values() if ledger is not None else ():
        yield f"{claim.namespace}/{claim.name}", claim.grants, _amounts(claim.resources)
    for record in cluster.pods.values():
        fact = record.fact
        if fact.node == node and not fact.ended and fact.uid not in claimed:
            yield fact.ref, fact.held, _amounts(cluster.allocator.amounts(fact.ask))


def _of_queue(cluster: ClusterState, shortage: Shortage) -> list[Holder]:
    """Return the pods of a queue and its descendants that hold most of a resource."""
    found = []
    for record in cluster.pods.values():
        fact = record.fact
        if (record.claims or fact.node) and not fact.ended and _is_in(cluster, fact, shortage.queue):
            amounts = cluster.accounts.counting.held(fact.ask, fact.held) if fact.node else None
            held = dict(cluster.accounts.counting.asked(fact.ask) if amounts is None else amounts)
            if amount := held.get(shortage.resource, 0):
                found.append((amount, fact.ref))
    unit = unit_of(shortage.resource)
    most = sorted(found, key=lambda one: (-one[0], one[1]))[:MAX_PODS]
    return [Holder(f"queue {shortage.queue}", ref, f"{shortage.resource}: {shown(held, unit)}") for held, ref in most]


def _is_in(cluster: ClusterState, fact: PodFact, queue: str) -> bool:
    return any(account.fact.name == queue for account in cluster.accounts.account(cluster.queue_of(fact)).path)


def _amounts(resources: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name}: {shown(amount, unit_of(name))}" for name, amount in resources)
