"""Places pods on a copy of the live state, with the allocator, the gangs and the queue limits of placement. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from deviceshare.allocation import Placement
from deviceshare.model import Now, PodFact
from deviceshare.queueing import Decision, Reason
from deviceshare.scheduler import Scheduler, describe
from deviceshare_bus.messages.subjects import subject_of

from deviceshare_cli.whatif.manifests import Candidate


class Fit(NamedTuple):
    """The answer for one copy of a candidate.

    ``placed``: its pods with their nodes and devices; ``whole``: all of its pods have a place, not just the minimum of
    a gang; ``borrows``: its queue exceeds what it deserves. Otherwise ``message`` says why not, with the pod and its
    ``reason``.
    """

    placed: tuple[tuple[PodFact, Placement], ...]
    whole: bool = False
    borrows: bool = False
    message: str = ""
    pod: PodFact | None = None
    reason: Reason = None

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return bool(self.placed)


class Fits(NamedTuple):
    """The answers for the copies that were asked for, and how many more fit (``most``: at least so many)."""

    asked: list[Fit]
    more: int
    most: bool

    @property
    def fitting(self) -> int:
        """How many of the copies fit."""
        return sum(each.fits for each in self.asked)


def fit(scheduler: Scheduler, candidates: Sequence[Candidate], count: int, limit: int, now: float) -> Fits:
    """Place ``count`` copies of candidates together, then as many more as fit, at most ``limit``.

    What is placed stays charged in ``scheduler``. Pending pods of the cluster are not placed first.
    """
    asked: list[Fit] = []
    for number in range(count):
        for candidate in candidates:
            asked.append(fit_one(scheduler, candidate.copy(number), now))
            if not asked[-1].fits:
                return Fits(asked, 0, False)
    more = 0
    while more < limit:
        if not all(fit_one(scheduler, each.copy(count + more), now, reasons=False).whole for each in candidates):
            return Fits(asked, more, False)
        more += 1
    return Fits(asked, more, True)


def fit_one(scheduler: Scheduler, candidate: Candidate, now: float, *, reasons: bool = True) -> Fit:
    """Place one candidate, and charge it; ``reasons``: whether to diagnose why it does not fit."""
    at = Now(now, now)
    if candidate.group is not None:
        scheduler.apply(f"podgroup {candidate.group.key}", candidate.group, at)
    for claim in candidate.claims:
        scheduler.apply(subject_of(claim), claim, at)
    for pod in candidate.pods:
        scheduler.apply(f"pod {pod.uid}", pod, at)
    with scheduler.trial() as trial:
        tried = trial.place_group(candidate.pods[0].group, now, reasons=reasons)
        trial.commit()
    if tried.refused is not None:
        return _refused(tried.refused, tried.placed, borrows=tried.borrows)
    if tried.obstacles and not tried.placed:
        pod, obstacle = tried.obstacles[0]
        return Fit((), message=obstacle.text, pod=pod)
    return Fit(tried.placed, whole=True, borrows=tried.borrows)


def _refused(decision: Decision, placed: tuple[tuple[PodFact, Placement], ...], *, borrows: bool) -> Fit:
    pod, reason = next(((pod, why) for pod, why in decision.waiting if why is not None), (decision.waiting[0][0], None))
    message = describe(reason, f"Pod {pod.ref}") if reason is not None else "the rest of its gang does not fit"
    group = decision.group
    if group.minimum > 1 and not placed:
        message = f"{decision.fitted} of at least {group.missing} pods of the gang fit: {message}"
    return Fit(placed, borrows=borrows, message=message, pod=pod, reason=reason)


def by_node(fits: Sequence[Fit]) -> Counter[str]:
    """Return the number of placed pods by node, most first."""
    counts = Counter(placement.node for each in fits for _, placement in each.placed)
    return Counter(dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))))
