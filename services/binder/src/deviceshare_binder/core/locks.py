"""Node locks: annotations by which schedulers that share a device plugin take turns.

A lock of another scheduler is respected until it is five minutes old, or the pod that it names does not exist. HAMi
does the same (``LockNode``), and asks the API server for the pod. The binder knows pods by their facts instead, which
may be late, and those of other schedulers once they are bound: it waits :data:`UNKNOWN_SECONDS`. HAMi binds right after
it has taken a lock. The binder writes a lock if the plugin serves the pod named in it, or if
``deviceshare.NodeLockEnable`` demands it; the plugin releases it, or the binder does.
Sources: volcano-sh/volcano pkg/scheduler/plugins/util/nodelock, Project-HAMi/HAMi pkg/util/nodelock/nodelock.go.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from deviceshare.families import BY_NAME
from deviceshare.model import Claim
from deviceshare_bus.cores.core import Now

from deviceshare_binder.core.commands import Annotate, LockNode

LOCK_SECONDS = 300.0
"""The age at which Volcano and HAMi ignore a lock; HAMi unless ``HAMI_NODELOCK_EXPIRE`` sets another one."""
LINGER = 1.0
"""Seconds that a device plugin has to release a lock of ours after it served the pod."""
MAX_OTHERS = 10_000
"""Locks of other schedulers that are remembered."""
UNKNOWN_SECONDS = 10.0
"""Seconds after which a lock is ignored whose pod is not known: a new pod may not be known yet."""
AGAIN = 0.2
"""Seconds until a lock that was taken by others, or is held for another pod of ours, is checked again."""


class _Own(msgspec.Struct, eq=False):
    """A lock that we hold for a pod; ``until`` is the monotonic time of its release, None while it is needed."""

    uid: str
    value: str
    until: float | None = None


def write(now: float, claim: Claim, *, names_holder: bool) -> str:
    """Return the value of a lock: the unix time, to the second, and the pod if the plugin needs it."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{moment},{claim.namespace},{claim.name}" if names_holder else moment


def read(value: str) -> tuple[float, str]:
    """Return the unix time at which a lock expires, 0 if it is invalid, and ``namespace/name`` of its pod or ''."""
    moment, _, holder = value.partition(",")
    try:
        since = datetime.fromisoformat(moment)
    except ValueError:
        return 0.0, ""
    since = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
    return since.timestamp() + LOCK_SECONDS, holder.replace(",", "/")


class _Other(NamedTuple):
    """A lock of others, and the monotonic times at which it was first seen and expires."""

    value: str
    seen: float
    expires: float


class Locks:
    """The locks of all nodes.

    Args:
        needed: whether a pod (uid) is being bound or handed over on a node.
        holder_needs: whether a pod (``namespace/name``) still needs a lock on a node, None if no such pod is known.
    """

    def __init__(self, needed: Callable[[str, str], bool], holder_needs: Callable[[str, str], bool | None]) -> None:
        self.every_family = False
        """``deviceshare.NodeLockEnable``."""
        self._needed = needed
        self._holder_needs = holder_needs
        self._own: dict[tuple[str, str], _Own] = {}
        self._others: dict[tuple[str, str], _Other] = {}
        """The latest locks of others, by node and annotation."""

    def next(self, claim: Claim, node: str, current: Mapping[str, str], now: Now) -> LockNode | float | None:
        """Return the lock to take first, or the monotonic time of the next check; None: bind now."""
        for annotation, names_holder, ours in self._of(claim):
            own, value = self._own.get((node, annotation)), current.get(annotation)
            if own is not None and own.uid == claim.uid:
                continue
            if value is not None and read(value)[1] == f"{claim.namespace}/{claim.name}":
                self._own[node, annotation] = _Own(claim.uid, value)
                continue
            # A plugin that releases a lock may remove the lock of the next pod: it has to be gone before.
            if own is not None and (own.value == value or self._needed(node, own.uid)):
                return now.monotonic + AGAIN
            if value is not None:
                until = self._respected_until(node, annotation, value, now)
                if until > now.monotonic:
                    return until
            if ours:
                return LockNode(claim.id, node, annotation, write(now.wall, claim, names_holder=names_holder), value)
        return None

    def _respected_until(self, node: str, annotation: str, value: str, now: Now) -> float:
        """Return the monotonic time until which a lock of another pod is respected.

        Its age follows from the wall clock once, when it was first seen: a step of the clock does not prolong it.
        """
        known = self._others.pop((node, annotation), None)
        if known is None or known.value != value:
            known = _Other(value, now.monotonic, now.monotonic + min(read(value)[0] - now.wall, LOCK_SECONDS))
        self._others[node, annotation] = known
        if len(self._others) > MAX_OTHERS:
            del self._others[next(iter(self._others))]
        if not (holder := read(value)[1]):
            return known.expires
        match self._holder_needs(node, holder):
            case None:
                return min(known.expires, known.seen + UNKNOWN_SECONDS)
            case needs:
                return known.expires if needs else now.monotonic

    def taken(self, claim: Claim, lock: LockNode) -> None:
        """A lock was taken for a claim."""
        self._own[lock.node, lock.annotation] = _Own(claim.uid, lock.value)

    def leave(self, owns: Callable[[str], bool]) -> None:
        """Leave the locks of nodes that this replica does not own to the replica that does; release the others."""
        for key in [key for key, own in self._own.items() if not owns(key[0]) and self._needed(key[0], own.uid)]:
            del self._own[key]

    def next_due(self) -> float | None:
        """Return the monotonic time of the next release."""
        return min((own.until for own in self._own.values() if own.until is not None), default=None)

    def release(self, now: float, current: Callable[[str], Mapping[str, str]]) -> Iterator[Annotate]:
        """Yield the releases that are due; ``current`` returns the locks of a node."""
        for (node, annotation), own in list(self._own.items()):
            if self._needed(node, own.uid):
                own.until = None
            elif own.until is None:
                own.until = now + LINGER
            elif own.until <= now:
                del self._own[node, annotation]
                if current(node).get(annotation) == own.value:
                    yield Annotate(
                        kind="Node", name=node, annotations={annotation: None}, expected={annotation: own.value}
                    )

    def _of(self, claim: Claim) -> Iterator[tuple[str, bool, bool]]:
        """Yield the annotations that lock a claim's plugins, whether they name their holder, whether we write them.

        In one order for all claims: two that each have one of two locks would wait for each other.
        """
        for name in sorted({grant.family for grant in claim.grants}):
            if name not in BY_NAME:
                continue
            plugin = BY_NAME[name].plugin
            for number, annotation in enumerate(plugin.locks):
                yield annotation, plugin.needs_lock, number == 0 and (plugin.needs_lock or self.every_family)
