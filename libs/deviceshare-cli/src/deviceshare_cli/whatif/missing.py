"""Who holds what a pod lacks: the pods on the closest nodes, or those of its queue. Pure."""

from typing import NamedTuple

from deviceshare.allocation import Unplaceable
from deviceshare.model import shown, unit_of
from deviceshare.queueing import Shortage
from deviceshare.scheduler import Scheduler

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


def holders(scheduler: Scheduler, fit: Fit) -> list[Holder]:
    """Return the pods that hold what a candidate lacks; none if nothing but its request is in the way."""
    if isinstance(fit.reason, Shortage):
        return _of_queue(scheduler, fit.reason)
    if not isinstance(fit.reason, Unplaceable):
        return []
    lacking = {refusal.resource for refusal in fit.reason.refusals if refusal.resource}
    found: list[Holder] = []
    short = [each for each in fit.reason.closest if any(one.asked or one.needed for one in each.refusals)]
    for near in short[:MAX_NODES]:
        cards = {card.id for card in near.cards if card.codes}
        holding = [
            Holder(f"node {near.node}", ref, shown_devices(devices_of(grants)) or _amounts(resources))
            for ref, grants, resources in scheduler.holders_on(near.node)
            if any(device.id in cards for grant in grants for device in grant.devices)
            or (not cards and any(resource in _amounts(resources) for resource in lacking))
        ]
        found += holding[:MAX_PODS]
    return found


def _of_queue(scheduler: Scheduler, shortage: Shortage) -> list[Holder]:
    """Return the pods of a queue and its descendants that hold most of a resource."""
    holding = ((amounts.get(shortage.resource, 0), pod.ref) for pod, amounts in scheduler.holders_of(shortage.queue))
    unit = unit_of(shortage.resource)
    most = sorted((each for each in holding if each[0]), key=lambda one: (-one[0], one[1]))[:MAX_PODS]
    return [Holder(f"queue {shortage.queue}", ref, f"{shortage.resource}: {shown(held, unit)}") for held, ref in most]


def _amounts(resources: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name}: {shown(amount, unit_of(name))}" for name, amount in resources)
