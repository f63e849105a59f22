"""Places pods on a copy of the live state, with the allocator, the gangs and the queue limits of placement. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from deviceshare.allocation import Placement
from deviceshare.model import PodFact
from deviceshare.queueing import Decision, Reason, Shortage, decide
from deviceshare.scheduler.explaining import describe
from deviceshare.scheduler.readiness import readiness
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.subjects import fact
from deviceshare_placement.core import FactReceived, PlacementCore

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


def fit(core: PlacementCore, candidates: Sequence[Candidate], count: int, limit: int, now: float) -> Fits:
    """Place ``count`` copies of candidates together, then as many more as fit, at most ``limit``.

    What is placed stays charged in ``core``. Pending pods of the cluster are not placed first.
    """
    asked: list[Fit] = []
    for number in range(count):
        for candidate in candidates:
            asked.append(fit_one(core, candidate.copy(number), now))
            if not asked[-1].fits:
                return Fits(asked, 0, False)
    more = 0
    while more < limit:
        if not all(fit_one(core, each.copy(count + more), now, reasons=False).whole for each in candidates):
            return Fits(asked, more, False)
        more += 1
    return Fits(asked, more, True)


def fit_one(core: PlacementCore, candidate: Candidate, now: float, *, reasons: bool = True) -> Fit:
    """Place one candidate, and charge it; ``reasons``: whether to diagnose why it does not fit."""
    cluster, at = core.scheduler.cluster, Now(now, now)
    if candidate.group is not None:
        core.handle(FactReceived(fact("podgroup", candidate.group.key), candidate.group), at)
    for pod in candidate.pods:
        core.handle(FactReceived(fact("pod", pod.uid), pod), at)
    cluster.accounts.refresh()
    if cluster.accounts.unready:
        return Fit((), message=cluster.accounts.unready, pod=candidate.pods[0])
    found = readiness(cluster, cluster.groups[candidate.pods[0].group], {}, now)
    if found.job is None:
        (pod, obstacle), *_ = found.obstacles
        return Fit((), message=obstacle.text, pod=pod)
    placed: list[tuple[PodFact, Placement]] = []
    group, borrows = found.job.group, False
    while group.pods:
        decision = decide(cluster.allocator, group, cluster.accounts, borrowing=borrows, reasons=reasons)
        if not decision.placed and not borrows and _may_borrow(core, decision):
            borrows = True
            continue
        if not decision.placed:
            return _refused(decision, tuple(placed), borrows=borrows)
        placed += decision.placed
        group = group.without([pod for pod, _ in decision.placed])
    return Fit(tuple(placed), whole=True, borrows=borrows)


def _may_borrow(core: PlacementCore, decision: Decision) -> bool:
    """Return whether only the deserved amount of the queue is in the way, which queues may exceed."""
    lacking = [reason for _, reason in decision.waiting if reason is not None]
    of_queue = [reason for reason in lacking if isinstance(reason, Shortage) and reason.bound == "deserved"]
    return bool(of_queue) and core.scheduler.cluster.allocator.conf.extensions.borrowing


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
