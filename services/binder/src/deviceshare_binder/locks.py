"""Locks of nodes: annotations by which schedulers that share a device plugin take turns. Pure.

A lock that another scheduler holds is waited for, until it is five minutes old. Ours is written where the plugin serves
the pod that it names, or where ``deviceshare.NodeLockEnable`` asks for it; the plugin gives it back, or we do.
Sources: volcano-sh/volcano pkg/scheduler/plugins/util/nodelock, Project-HAMi/HAMi pkg/util/nodelock.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from deviceshare.families import BY_NAME
from deviceshare.model import Claim

LOCK_SECONDS = 300.0
"""After so long nobody honours a lock, as by Volcano and HAMi."""
LINGER = 1.0
"""Seconds that a device plugin has to give back what we locked, once it has served the pod."""
AGAIN = 0.2
"""Seconds until a lock that we could not have, or that is ours for another pod, is looked at again at the latest."""


class Lock(NamedTuple):
    """Write an annotation of a node if it is ``expected`` (None: not there).

    Answer with :meth:`Core.lock_answered` or :meth:`Core.failed`.
    """

    claim: str
    node: str
    annotation: str
    value: str
    expected: str | None


class Unlock(NamedTuple):
    """Remove an annotation of a node if it is still ``value``."""

    node: str
    annotation: str
    value: str


class _Own:
    """A lock that we hold for a pod; ``until`` is when it is given back, None as long as it is needed."""

    __slots__ = ("uid", "until", "value")

    def __init__(self, uid: str, value: str) -> None:
        self.uid = uid
        self.value = value
        self.until: float | None = None


def write(now: float, claim: Claim, *, names_holder: bool) -> str:
    """Return the value of a lock: when, to the second, and where the plugin asks for it, for which pod."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{moment},{claim.namespace},{claim.name}" if names_holder else moment


def read(value: str) -> tuple[float, str]:
    """Return until when (unix seconds) a lock holds, 0 for what is none, and ``namespace/name`` of its pod or ''."""
    moment, _, holder = value.partition(",")
    try:
        since = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0, ""
    since = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
    return since.timestamp() + LOCK_SECONDS, holder.replace(",", "/")


class Locks:
    """The locks of all nodes; ``needed`` tells whether a pod (uid) is still on its way to a node.

    ``left_over`` tells of a pod (``namespace/name``) that we know that it does not need a lock on a node any more.
    """

    def __init__(self, needed: Callable[[str, str], bool], left_over: Callable[[str, str], bool]) -> None:
        self.every_family = False
        """``deviceshare.NodeLockEnable``."""
        self._needed = needed
        self._left_over = left_over
        self._own: dict[tuple[str, str], _Own] = {}

    def next(self, claim: Claim, node: str, standing: Mapping[str, str], now: float) -> Lock | float | None:
        """Return the lock to take before the claim is bound, the moment to look again, or None where it can be."""
        for annotation, names_holder, ours in self._of(claim):
            own, stands = self._own.get((node, annotation)), standing.get(annotation)
            if own is not None and own.uid == claim.uid:
                continue
            if stands is not None and read(stands)[1] == f"{claim.namespace}/{claim.name}":
                self._own[node, annotation] = _Own(claim.uid, stands)
                continue
            # A plugin that gives a lock back may take it from whoever has it by then: it has to be gone before.
            if own is not None and (own.value == stands or self._needed(node, own.uid)):
                return now + AGAIN
            if stands is not None:
                until, holder = read(stands)
                if until > now and not (holder and self._left_over(node, holder)):
                    return until
            if ours:
                return Lock(claim.id, node, annotation, write(now, claim, names_holder=names_holder), stands)
        return None

    def taken(self, claim: Claim, lock: Lock) -> None:
        """We hold a lock for a claim."""
        self._own[lock.node, lock.annotation] = _Own(claim.uid, lock.value)

    def next_due(self) -> float | None:
        """Return when :meth:`take` has something to do at the latest."""
        return min((own.until for own in self._own.values() if own.until is not None), default=None)

    def take(self, now: float, standing: Callable[[str], Mapping[str, str]]) -> Iterator[Unlock]:
        """Yield the locks to give back now; ``standing`` tells those of a node."""
        for (node, annotation), own in list(self._own.items()):
            if self._needed(node, own.uid):
                own.until = None
            elif own.until is None:
                own.until = now + LINGER
            elif own.until <= now:
                del self._own[node, annotation]
                if standing(node).get(annotation) == own.value:
                    yield Unlock(node, annotation, own.value)

    def _of(self, claim: Claim) -> Iterator[tuple[str, bool, bool]]:
        """Yield the annotations that count for a claim, whether they name their holder, and whether we write them."""
        for name in dict.fromkeys(grant.family for grant in claim.grants):
            if name not in BY_NAME:
                continue
            plugin = BY_NAME[name].plugin
            for number, annotation in enumerate(plugin.locks):
                yield annotation, plugin.needs_lock, number == 0 and (plugin.needs_lock or self.every_family)
