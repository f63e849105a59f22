"""What the binder records of claims: their outcomes, as steps and log lines, and claims that are not valid."""

from deviceshare.families.dra import DeviceConflict
from deviceshare.model import BOUND
from deviceshare_bus.cores.core import Command, Count, Log, Now, RecordStep

from deviceshare_binder.core.bind_task import Finished, Rejected


def of_outcome(finished: Finished, now: Now) -> list[Command]:
    """Return the records of an outcome."""
    claim, node, state, reason = finished
    pod = f"{claim.namespace}/{claim.name}"
    step = RecordStep(claim.uid, pod, state, node=node, message=reason, at=now.wall)
    if state == BOUND:
        details = {
            "namespace": claim.namespace, "pod": claim.name, "uid": claim.uid, "node": node, "queue": claim.queue,
            "claim": claim.id, "seconds": round(now.wall - (claim.seen_at or claim.decided_at), 6),
        }  # fmt: skip
        return [step, Log("debug", "pod bound", details)]
    if reason:
        return [
            step,
            Log("info", f"claim refused: {pod}: {reason}", {"uid": claim.uid, "node": node, "claim": claim.id}),
        ]
    return [step]


def of_rejection(rejected: Rejected) -> list[Command]:
    """Return the records of a claim that is not valid."""
    claim, node, reason = rejected
    details = {"claim": claim.id, "uid": claim.uid, "node": node, "decided_by": claim.decided_by}
    return [
        Count("claims_rejected"),
        Log("warning", f"claim of {claim.namespace}/{claim.name} is not valid: {reason}", details),
    ]


def text_of(conflict: DeviceConflict, reader: str = "") -> str:
    """Return what is said of a conflict.

    ``reader``: the one of both claims for whose pods it is, which names no claim of another namespace; '': the log.
    """
    claims = conflict.claim.key, conflict.other.key
    both = f"ResourceClaims {' and '.join(claims)}"
    if reader and len({key.partition("/")[0] for key in claims}) > 1:
        both = f"ResourceClaim {reader} and a ResourceClaim of another namespace"
    return f"{both} have more than there is of device {'/'.join(conflict.device)}, or of counters that it consumes"


def of_conflict(conflict: DeviceConflict) -> list[Command]:
    """Return the records of a conflict."""
    return [Count("device_conflicts"), Log("warning", text_of(conflict))]
