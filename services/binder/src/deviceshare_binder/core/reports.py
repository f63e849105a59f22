"""Reports about pods: the condition ``PodScheduled`` and the Events FailedScheduling, Scheduled and others.

Why a pod waits is reported when the message changes, the newest message only.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare.families import caveats
from deviceshare.model import PENDING, Claim, Explanation

from deviceshare_binder.core.plugin_handoff import Stuck
from deviceshare_binder.core.views import PodView

SCHEDULED, LIMIT, STUCK = "Scheduled", "DevicePluginLimit", "DevicePluginStuck"
"""Reasons of Events about pods that are bound."""
FAILED_SCHEDULING = "FailedScheduling"
"""Reason of Events about pods that wait, and about pods whose binding the API server does not permit."""
UNSCHEDULABLE = "Unschedulable"
GATED = "SchedulingGated"
MOST_UNKNOWN = 10_000
"""Explanations of unknown pods that are kept: most of these pods are gone, their explanations stay for a day."""
MOST_SCHEDULED = 10_000
"""Events of bound pods that wait to be written; beyond this number the oldest are dropped."""


class ReportPending(NamedTuple):
    """Write the condition of a pod that waits and, if ``event``, record the Event FailedScheduling."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    event: bool


class ReportScheduled(NamedTuple):
    """Record the Event Scheduled, or a warning about a pod with a claim."""

    uid: str
    namespace: str
    name: str
    message: str
    reason: str = SCHEDULED

    @property
    def warning(self) -> bool:
        """Whether the Event is a warning."""
        return self.reason != SCHEDULED


class Reports:
    """The reports to write; ``pods`` are the known pods by uid."""

    def __init__(self, pods: Mapping[str, PodView]) -> None:
        self._pods = pods
        self._pending: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages by the pod's uid, and whether an Event is recorded as well."""
        self._unknown: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages for pods that are not known (yet), the latest last."""
        self._waits: dict[str, str] = {}
        """Messages for pods whose claim waits for a device plugin."""
        self._reported: dict[str, str] = {}
        self._scheduled: deque[ReportScheduled] = deque()
        self._dropped = 0

    @property
    def waiting(self) -> int:
        """The number of reports to write."""
        return len(self._pending) + len(self._scheduled)

    def take_dropped(self) -> int:
        """Return how many reports were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def explained(self, explanation: Explanation, *, event: bool) -> None:
        """A decision about a pod was explained; without ``event`` the message is older than this process."""
        uid = explanation.uid
        self._pending.pop(uid, None)
        self._unknown.pop(uid, None)
        if explanation.decision != PENDING:
            self._report_wait(uid)
            return
        self._waits.pop(uid, None)
        if uid not in self._pods:
            self._unknown[uid] = (explanation.message, event)
            if len(self._unknown) > MOST_UNKNOWN:
                self._unknown.popitem(last=False)
        elif self._reported.get(uid) != explanation.message:
            self._pending[uid] = (explanation.message, event)

    def pod(self, uid: str, view: PodView | None) -> None:
        """A pod changed, None if it is gone."""
        if view is None or view.node or view.ended:
            self._pending.pop(uid, None)
            self._unknown.pop(uid, None)
            self._reported.pop(uid, None)
            self._waits.pop(uid, None)
        elif uid in self._unknown:
            self._pending[uid] = self._unknown.pop(uid)

    def bound(self, claim: Claim, node: str) -> None:
        """A claim was bound."""
        self._pending.pop(claim.uid, None)
        self._reported.pop(claim.uid, None)
        self._waits.pop(claim.uid, None)
        message = f"Successfully assigned {claim.namespace}/{claim.name} to {node}"
        self._add(ReportScheduled(claim.uid, claim.namespace, claim.name, message))
        for caveat in caveats(claim.grants):
            self._add(ReportScheduled(claim.uid, claim.namespace, claim.name, caveat, LIMIT))

    def stuck(self, stuck: Stuck, waiting: Sequence[Claim]) -> None:
        """A device plugin does not serve a pod, for which claims wait."""
        view = self._pods.get(stuck.uid)
        if view is None:
            return
        plugin, keys = " and ".join(stuck.plugins) or "the device plugin", " and ".join(stuck.keys)
        text = f"{plugin} of {stuck.node} does not serve this pod, which has {keys}: others like it wait until it ends"
        self._add(ReportScheduled(view.uid, view.namespace, view.name, text, STUCK))
        for claim in waiting:
            self._waits[claim.uid] = (
                f"waits on {stuck.node}: {plugin} has not served pod {view.namespace}/{view.name} yet, which has {keys}"
            )
            self._report_wait(claim.uid)

    def _report_wait(self, uid: str) -> None:
        text = self._waits.get(uid)
        if text is not None and self._reported.get(uid) != text:
            self._pending[uid] = (text, True)

    def refused(self, claim: Claim, message: str) -> None:
        """The API server does not permit what a claim needs."""
        self._add(ReportScheduled(claim.uid, claim.namespace, claim.name, message, FAILED_SCHEDULING))

    def failed(self, uid: str, message: str) -> None:
        """A report was given up: the same message is reported again with the next decision."""
        if self._reported.get(uid) == message:
            del self._reported[uid]

    def _add(self, report: ReportScheduled) -> None:
        self._scheduled.append(report)
        if len(self._scheduled) > MOST_SCHEDULED:
            self._scheduled.popleft()
            self._dropped += 1

    def take(self, writes: int) -> list[ReportPending | ReportScheduled]:
        """Return the reports to write now, in about so many writes: of bound and of waiting pods in turn."""
        reported: list[ReportPending | ReportScheduled] = []
        while writes > 0:
            scheduled, pending = self.take_scheduled(), self.take_pending()
            if scheduled is None and pending is None:
                break
            reported += [one for one in (scheduled, pending) if one is not None]
            writes -= (scheduled is not None) + (0 if pending is None else 1 + pending.event)
        return reported

    def take_pending(self) -> ReportPending | None:
        """Return the oldest report about a waiting pod, None if there is none."""
        while self._pending:
            uid, (message, event) = self._pending.popitem(last=False)
            view = self._pods.get(uid)
            if view is None or view.node or view.ended:
                continue
            self._reported[uid] = message
            reason = GATED if view.gates else UNSCHEDULABLE
            return ReportPending(uid, view.namespace, view.name, reason, message, event)
        return None

    def take_scheduled(self) -> ReportScheduled | None:
        """Return the oldest Event about a pod with a claim, None if there is none."""
        return self._scheduled.popleft() if self._scheduled else None
