"""What a round of the scheduler gives to pods with ResourceClaims."""

from typing import Any

from deviceshare.model import DeviceClaim, Now
from deviceshare.scheduler import Scheduler
from support.devices import NOW

Json = dict[str, Any]


def decided(scheduler: Scheduler, now: Now = NOW) -> dict[str, tuple[str, tuple[DeviceClaim, ...]]]:
    """Decide a round, and let all of its decisions stand; return node and ResourceClaims by pod."""
    found = {}
    for fact, placement, decision in scheduler.round(now).placed:
        made = scheduler.new_claim(f"claim-{fact.uid}", fact, placement, decision, now)
        known = scheduler.cluster.ledger(placement.node).claims.values()
        scheduler.claim(placement.node, [*known, made])
        found[fact.name] = placement.node, made.devices
    return found


def names(claims: tuple[DeviceClaim, ...]) -> list[list[str]]:
    return [[each.device for each in of_claim.results] for of_claim in claims]
