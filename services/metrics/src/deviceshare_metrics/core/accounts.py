"""The accounts of queues, computed from the store as placement computes them."""

from deviceshare.model import PodFact, PodRequest
from deviceshare.queueing import Queues

from deviceshare_metrics.core.claimed_devices import ClaimCounts
from deviceshare_metrics.core.facts import decoded_request
from deviceshare_metrics.core.state_store import StateStore


def queue_accounts(store: StateStore) -> Queues:
    """Return the accounts of all queues: what their pods hold and request, and what they deserve.

    Of pods, they know those that wait.
    """
    accounts = Queues(store.conf)
    accounts.claims.known = ClaimCounts(store)
    for node in store.nodes.values():
        accounts.set_node(node)
    for queue in store.queues.values():
        accounts.set_queue(queue)
    claimed = {claim.uid for ledger in store.ledgers.values() for claim in ledger.claims}
    schedulers = {pod.scheduler for pod in store.pods.values() if not pod.node or pod.uid in claimed}
    queues = {group.key: group.queue for group in store.groups.values()}
    requests: dict[bytes, PodRequest | None] = {}
    """By their bytes: pods of one template have one object, which counts once."""
    for pod in store.pods.values():
        if pod.ended:
            continue
        encoded = bytes(pod.ask)
        if encoded not in requests:
            requests[encoded] = decoded_request(pod.ask)
        if (request := requests[encoded]) is None:
            continue
        fact = PodFact(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, created=pod.created, node=pod.node, group=pod.group,
            ask=request, device_claims=pod.device_claims,
        )  # fmt: skip
        if fact.podgroup or pod.uid in claimed or pod.scheduler in schedulers:
            accounts.put(fact, queues.get(pod.group, "") or pod.queue, pod.group)
            if pod.node or pod.uid in claimed:
                accounts.hold(pod.uid)
                accounts.forget(pod.uid)
        elif pod.node:
            accounts.put_other(fact)
    accounts.refresh()
    return accounts
