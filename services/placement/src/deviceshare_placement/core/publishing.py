"""What is written to EXPLAIN: why pods wait, and why those that have ended were placed."""

from deviceshare.families import explain_claim
from deviceshare.model import Claim, Explanation
from deviceshare.scheduler import Scheduler
from deviceshare_bus.cores.core import ExpireOthers, PutLatest
from deviceshare_bus.messages.subjects import Stream, explain

EXPLANATION_TTL = 24 * 3600.0
"""Seconds for which the server keeps the last explanation of an object that is gone."""
MAX_EXPLANATIONS, EXPLANATION_BYTES = 100_000, 1 << 28
"""The number of messages on EXPLAIN, and their bytes in the store, beyond which the oldest explanations of objects that
are gone are deleted."""


def publish(explanation: Explanation, *, ttl: float | None = None) -> PutLatest:
    """Return the command that publishes an explanation, for ``ttl`` seconds or, with None, without limit."""
    return PutLatest(explain(explanation.uid), explanation, ttl)


def expire_others(scheduler: Scheduler) -> ExpireOthers:
    """Return the command that lets explanations expire whose objects were deleted while the service did not run."""
    groups = (group.fact for group in scheduler.groups.values())
    uids = {*scheduler.pods, *(fact.uid for fact in groups if fact is not None)} - {""}
    return ExpireOthers(Stream.EXPLAIN, tuple(map(explain, sorted(uids))), EXPLANATION_TTL)


def ended(scheduler: Scheduler, claim: Claim, node: str) -> PutLatest:
    """Return the command that keeps why a pod was placed, when it has ended and its claim is to be removed."""
    fact = scheduler.node(node)
    return publish(explain_claim(claim, node, fact.cards if fact is not None else ()))
