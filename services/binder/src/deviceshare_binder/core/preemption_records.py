"""What the binder tells users, and counts, of evictions and nominations."""

from collections.abc import Mapping

from deviceshare.model import WHOLE, Claim, Eviction
from deviceshare_bus.cores.core import Command, Count, Log
from deviceshare_bus.messages.codec import BLOCKED_EVICTIONS, VICTIMS, victim_labels
from deviceshare_cluster.interface import EventRecord

from deviceshare_binder.core.evictions import Blocked, EvictedPod
from deviceshare_binder.core.nominated_nodes import Nominated
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_binder.core.views import PodGroupView

EVICT = "Evict"
"""The reason of Events of a PodGroup. Source: Volcano pkg/scheduler/cache (SchedulerCache.Evict)."""
PREEMPTED, NOMINATED, PREEMPTION_BLOCKED = "Preempted", "Nominated", "PreemptionBlocked"
"""Reasons of Events: of a pod that was evicted, of the pod for which it goes, and of that pod if another cannot go."""
_SHOWN = 3
"""Devices that a message names."""


def records_of(
    step: EvictedPod | Blocked | Nominated, nodes: Mapping[str, NodeClaims]
) -> tuple[EventRecord | None, list[Command]]:
    """Return the Event of what has happened, None without the pod that it is about, and the counters and log lines."""
    match step:
        case EvictedPod():
            return _preempted(step, nodes)
        case Blocked():
            return _blocked(step, nodes)
        case _:
            return _nominated(step), []


def evict_of_group(eviction: Eviction, group: PodGroupView) -> EventRecord:
    """Return the Event of the PodGroup of an evicted pod, as Volcano writes it: its message is the action."""
    namespace, _, name = group.key.partition("/")
    return EventRecord("PodGroup", namespace, name, group.uid, False, EVICT, eviction.action, at=0.0)


def _preempted(step: EvictedPod, nodes: Mapping[str, NodeClaims]) -> tuple[EventRecord, list[Command]]:
    eviction, node = step
    claim = _claim_of(eviction, node, nodes)
    uid = f" (uid {claim.uid})" if claim is not None else ""
    message = f"Preempted by pod {eviction.preemptor}{uid} on node {node} for {eviction.action}"
    if claim is not None and claim.queue:
        message += f", queue {claim.queue}"
    if (there := nodes.get(node)) is not None and claim is not None and claim.id in there.ledger and claim.grants:
        message += f": {_devices(claim)}"
    pod = f"{eviction.namespace}/{eviction.name}"
    details = {"uid": eviction.uid, "node": node, "claim": eviction.claim, "action": eviction.action}
    log = Log("info", f"evicted {pod} for {eviction.preemptor}", details)
    return _event(eviction, PREEMPTED, message), [
        Count(VICTIMS + "\n".join(victim_labels(eviction))),
        log,
    ]


def _blocked(step: Blocked, nodes: Mapping[str, NodeClaims]) -> tuple[EventRecord | None, list[Command]]:
    eviction, node, reason, refused = step
    message = f"pod {eviction.namespace}/{eviction.name} on node {node} cannot be evicted: {reason}"
    details = {"uid": eviction.uid, "node": node, "claim": eviction.claim}
    commands: list[Command] = [
        Count(f"{BLOCKED_EVICTIONS}{'forbidden' if refused else 'budget'}"),
        Log("warning" if refused else "info", f"{message}; it has to go for {eviction.preemptor}", details),
    ]
    claim = _claim_of(eviction, node, nodes)
    if claim is None:
        return None, commands
    return _event(claim, PREEMPTION_BLOCKED, message, warning=True), commands


def _nominated(step: Nominated) -> EventRecord:
    claim, node = step
    number = len(claim.waits_for)
    message = f"Nominated on node {node}: {number} {'pod has' if number == 1 else 'pods have'} to go first"
    return _event(claim, NOMINATED, message)


def _event(pod: Claim | Eviction, reason: str, message: str, *, warning: bool = False) -> EventRecord:
    return EventRecord("Pod", pod.namespace, pod.name, pod.uid, warning, reason, message, at=0.0, once=True)


def _claim_of(eviction: Eviction, node: str, nodes: Mapping[str, NodeClaims]) -> Claim | None:
    """Return the claim for which a pod goes: on its own node, or else on another one."""
    own = nodes.get(node)
    if own is not None and (claim := own.ledger.get(eviction.claim)) is not None:
        return claim
    return next((each.ledger[eviction.claim] for each in nodes.values() if eviction.claim in each.ledger), None)


def _devices(claim: Claim) -> str:
    """Return the devices of a claim in words."""
    devices = [device for grant in claim.grants for device in grant.devices]
    shown = [
        f"card {device.id}" if device.memory == WHOLE else f"{device.memory} MiB of card {device.id}"
        for device in devices[:_SHOWN]
    ]
    more = len(devices) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
