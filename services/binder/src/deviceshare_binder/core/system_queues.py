"""The Queues ``root`` and ``default``, which the binder creates if they do not exist.

Volcano's scheduler creates them when it starts, and Volcano's webhook refuses every Job whose queue does not exist.
Source: Volcano pkg/scheduler/cache/cache.go (newDefaultAndRootQueue).
"""

from collections.abc import Sequence

from deviceshare.model import Backoff
from deviceshare.queueing import ROOT
from deviceshare_bus.cores.core import Command, Log

from deviceshare_binder.core.commands import CreateQueue

RETRY = Backoff(2.0, 30.0)
"""Seconds between two attempts; the pause grows while a Queue cannot be created."""


class SystemQueues:
    """Creates missing Queues, one attempt for all of them at a time.

    A failure is retried whatever its cause: the kind, or Volcano's webhook, may be installed later.
    """

    def __init__(self) -> None:
        self._due = float("-inf")
        self._failures = 0
        self._unanswered = 0
        self._failed = False
        self._reported: set[str] = set()

    def next_due(self, missing: Sequence[str]) -> float | None:
        """Return the monotonic time of the next attempt, None if no Queue is missing or an answer is."""
        return self._due if missing and not self._unanswered else None

    def tick(self, missing: Sequence[str], now: float) -> list[Command]:
        """Return the commands that create the missing Queues, if an attempt is due at a monotonic time."""
        if self._unanswered or now < self._due or not missing:
            return []
        self._unanswered, self._failed = len(missing), False
        return [CreateQueue(name, reclaimable=name != ROOT) for name in missing]

    def created(self, name: str, now: float) -> list[Command]:
        """A Queue was created; its fact arrives before the next attempt."""
        self._reported.discard(name)
        self._answered(now)
        return [Log("info", f"queue {name} exists now")]

    def failed(self, name: str, message: str, now: float) -> list[Command]:
        """A Queue could not be created. A warning is logged once, if this lasts: at first it may only be too early."""
        lasts = RETRY.delay(self._failures) == RETRY.most and name not in self._reported
        if lasts:
            self._reported.add(name)
        self._failed = True
        self._answered(now)
        return [Log("warning" if lasts else "debug", f"cannot create queue {name}: {message}")]

    def _answered(self, now: float) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._failures = self._failures + 1 if self._failed else 0
            self._due = now + RETRY.delay(self._failures)
