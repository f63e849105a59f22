"""The life cycle of a pod: seen, queued, decided, claimed, handed over, bound."""

from collections.abc import Iterable

from deviceshare.model import Claim

from deviceshare_metrics.api import LIFE_STAGES, LifeStage, LifeStageName, Pod, StageState
from deviceshare_metrics.core.state_store import PodStep

_DONE: dict[str, int] = {"Claimed": 4, "Bound": 6, "Ended": 6}
"""How many stages are over in a state of a pod; the binder has the claim of a claimed pod, but may not have read it."""


def life_cycle(pod: Pod | None, claim: Claim | None, steps: Iterable[PodStep]) -> tuple[LifeStage, ...]:
    """Return the stages with their times (unix seconds, 0 if unknown).

    Seen: inventory has read the pod. Queued: placement has read it. Decided: placement has chosen its devices. Claimed:
    the claim is on its way to the ledger. Handed over: the binder has the claim. Bound: the API server has accepted the
    binding. If a pod was decided several times the last claim counts; a stage that only an earlier claim reached is
    open.
    """
    last: dict[str, float] = {}
    first: dict[str, float] = {}
    for step in steps:
        last[step.name] = max(last.get(step.name, 0.0), step.at)
        first[step.name] = min(first.get(step.name, step.at), step.at)
    queued = claim.seen_at if claim is not None else 0.0
    times: dict[LifeStageName, float] = {
        "seen": first.get("seen", 0.0),
        "queued": queued or first.get("pending", 0.0),
        "decided": claim.decided_at if claim is not None else 0.0,
        "claimed": (claim.sent_at or last.get("claimed", 0.0)) if claim is not None else last.get("claimed", 0.0),
        "handed_over": 0.0,
        "bound": first.get("bound", 0.0),  # a later binder may find the same binding
    }
    if pod is None:
        done = 1 + max((at for at, name in enumerate(LIFE_STAGES) if times[name]), default=-1)
    else:
        done = _DONE.get(pod.state, 2 if times["queued"] else 1)
    return tuple(
        LifeStage(name=name, at=times[name] if at < done else 0.0, state=_state(at, done, gone=pod is None))
        for at, name in enumerate(LIFE_STAGES)
    )


def _state(at: int, done: int, *, gone: bool) -> StageState:
    if at < done:
        return "done"
    return "current" if at == done and not gone else "open"
