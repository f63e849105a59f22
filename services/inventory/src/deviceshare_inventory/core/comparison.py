"""The comparison of the revisions that the watch delivered with the cluster's, kind by kind, at intervals.

A watch that loses changes raises no error; a new watch delivers everything again.
"""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare.objects import DEVICE_KINDS, KINDS, STORAGE_KINDS
from deviceshare_bus.cores.core import Command, Count, Log, Now
from deviceshare_bus.messages.codec import RECONCILED
from deviceshare_cluster.interface import Change

from deviceshare_inventory.core.commands import CompareRevisions, RestartWatch
from deviceshare_inventory.core.events import ComparisonFailed, RevisionsCompared
from deviceshare_inventory.core.seen_revisions import Place, SeenRevisions

COMPARED = tuple(kind for kind in KINDS if kind not in ("ConfigMap", *STORAGE_KINDS))
"""The kinds that are compared always: of ConfigMaps not all are listed."""
COMPARE_INTERVAL = 5.0
"""Seconds between two rounds of comparisons; up to half as much longer with jitter."""
COMPARE_SHARE = 0.02
"""The share of the time that comparisons may take: a large cluster is compared less often. After failures the pause is
as long as they took."""
LATE = 5.0
"""Seconds after which a change that the cluster has and the watch has not delivered is lost."""


class _Request(NamedTuple):
    """A comparison that waits for the cluster; ``began`` is monotonic."""

    kind: str
    since: int
    began: float


class _Missing(NamedTuple):
    """Changes that the watch may still deliver."""

    kind: str
    behind: Mapping[Place, int]


class Comparison:
    """Runs rounds of comparisons while a complete list is known. ``jitter`` is a fraction from 0 to 1."""

    def __init__(self, jitter: float) -> None:
        self._jitter = jitter
        self._seen = SeenRevisions()
        self._number = 0
        self._kinds: list[str] = []
        """Kinds that this round has still to compare."""
        self._request: _Request | None = None
        self._missing: _Missing | None = None
        self._took = 0.0
        """Seconds that the cluster took to answer in this round."""
        self._unanswered = 0.0
        """Seconds in this round until requests failed: a lost answer says nothing about the work of the cluster."""
        self._failed: set[str] = set()
        """Kinds of which a final failure was reported."""
        self.storage = self.devices = False
        """Whether the kinds of storage, and of devices, are compared, too."""
        self.due: float | None = None
        """Monotonic time of the next step that does not wait for an answer."""

    def begin_list(self) -> None:
        """Stop until :meth:`schedule`: a watch begins and delivers everything again."""
        self._seen.begin_list()
        self.stop()

    def stop(self) -> None:
        """End the round, and begin none before :meth:`schedule`."""
        self._request = self._missing = self.due = None
        self._kinds = []

    def apply(self, change: Change) -> None:
        """Record a change that the watch delivered."""
        if change.kind in COMPARED or change.kind in STORAGE_KINDS or change.kind in DEVICE_KINDS:
            self._seen.apply(change)

    def act(self, now: Now) -> list[Command]:
        """Take the step that is due, if any."""
        if self.due is None or now.monotonic < self.due:
            return []
        self.due = None
        if self._missing is not None:
            missing, self._missing = self._missing, None
            return self._check(missing, now)
        self._kinds = [*COMPARED, *(STORAGE_KINDS if self.storage else ()), *(DEVICE_KINDS if self.devices else ())]
        self._took = self._unanswered = 0.0
        return self._next_kind(now)

    def handle(self, answer: RevisionsCompared | ComparisonFailed, now: Now) -> list[Command]:
        """Apply the answer to a :class:`.commands.CompareRevisions`."""
        request = self._request
        if request is None or answer.comparison != self._number:
            return []  # everything has been listed anew meanwhile
        self._request = None
        kind, took = request.kind, now.monotonic - request.began
        if isinstance(answer, ComparisonFailed):
            self._unanswered += took
            return [*self._report_failure(answer), *self._next_kind(now)]
        self._took += took
        self._failed.discard(kind)
        missing = _Missing(kind, self._seen.behind(kind, answer.revisions, request.since))
        if self._seen.may_arrive(kind, missing.behind, answer.revisions.at):
            self._missing = missing
            self.due = now.monotonic + LATE
            return []
        return self._check(missing, now)

    def _check(self, missing: _Missing, now: Now) -> list[Command]:
        lost = self._seen.lost(missing.kind, missing.behind)
        if not lost:
            return self._next_kind(now)
        self.stop()
        message = f"the watch lost {len(lost)} changes of kind {missing.kind}, such as {'/'.join(lost[0])}"
        return [Log("warning", message), Count(f"{RECONCILED}fact", len(lost)), RestartWatch(self.devices)]

    def _next_kind(self, now: Now) -> list[Command]:
        if not self._kinds:
            self.schedule(now)
            return []
        kind = self._kinds.pop(0)
        self._number += 1
        self._request = _Request(kind, self._seen.begin_comparison(kind), now.monotonic)
        return [CompareRevisions(self._number, kind)]

    def schedule(self, now: Now) -> None:
        """Begin the next round after a pause: a list is complete, or a round ended."""
        pause = max(COMPARE_INTERVAL, self._took / COMPARE_SHARE, self._unanswered)
        self.due = now.monotonic + pause * (1 + self._jitter / 2)

    def _report_failure(self, failure: ComparisonFailed) -> list[Command]:
        """Report a refusal once, since it lasts, as of a kind without permissions; the next round tries again."""
        message = f"cannot compare {failure.kind}: {failure.error}"
        if not failure.final:
            return [Log("debug", message), Count("cluster_errors")]
        if failure.kind in self._failed:
            return [Log("debug", message)]
        self._failed.add(failure.kind)
        return [Log("warning", message), Count("cluster_errors")]
