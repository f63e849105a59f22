"""Node locks: annotations by which schedulers that share a device plugin take turns.

A lock of another scheduler is respected until it is five minutes old. The binder writes a lock if the plugin serves the
pod named in it, or if ``deviceshare.NodeLockEnable`` demands it; the plugin releases it, or the binder does.
Sources: volcano-sh/volcano pkg/scheduler/plugins/util/nodelock, Project-HAMi/HAMi pkg/util/nodelock.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from deviceshare.families import BY_NAME
from deviceshare.model import Claim
from deviceshare_bus.core import Now

from deviceshare_binder.core.commands import Annotate, LockNode

LOCK_SECONDS = 300.0
"""The age at which Volcano and HAMi ignore a lock."""
LINGER = 1.0
"""Seconds that a device plugin has to release a lock of ours after it served the pod."""
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


class Locks:
    """The locks of all nodes.

    Args:
        needed: whether a pod (uid) is being bound or handed over on a node.
        left_over: whether a pod (``namespace/name``) is known and does not need a lock on a node any more.
    """

    def __init__(self, needed: Callable[[str, str], bool], left_over: Callable[[str, str], bool]) -> None:
        self.every_family = False
        """``deviceshare.NodeLockEnable``."""
        self._needed = needed
        self._left_over = left_over
        self._own: dict[tuple[str, str], _Own] = {}

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
                until, holder = read(value)
                if until > now.wall and not (holder and self._left_over(node, holder)):
                    return now.monotonic + (until - now.wall)
            if ours:
                return LockNode(claim.id, node, annotation, write(now.wall, claim, names_holder=names_holder), value)
        return None

    def taken(self, claim: Claim, lock: LockNode) -> None:
        """A lock was taken for a claim."""
        self._own[lock.node, lock.annotation] = _Own(claim.uid, lock.value)

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
        """Yield the annotations that lock a claim's plugins, whether they name their holder, whether we write them."""
        for name in dict.fromkeys(grant.family for grant in claim.grants):
            if name not in BY_NAME:
                continue
            plugin = BY_NAME[name].plugin
            for number, annotation in enumerate(plugin.locks):
                yield annotation, plugin.needs_lock, number == 0 and (plugin.needs_lock or self.every_family)
