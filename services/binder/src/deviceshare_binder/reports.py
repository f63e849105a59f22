"""What users read on their pods: the condition ``PodScheduled`` and the Events FailedScheduling and Scheduled. Pure.

A pod that waits is told why when the message changes, the newest message only.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare.families import caveats
from deviceshare.model import PENDING, Claim, Explanation

from deviceshare_binder.plugin_handoff import Stuck
from deviceshare_binder.views import PodView

SCHEDULED, LIMIT, STUCK = "Scheduled", "DevicePluginLimit", "DevicePluginStuck"
"""Reasons of Events about pods that are bound."""
UNSCHEDULABLE = "Unschedulable"
GATED = "SchedulingGated"
MOST_UNKNOWN = 10_000
"""Explanations kept of pods that are not known: most of them are gone, and are explained for a day more."""


class ReportPending(NamedTuple):
    """Write the condition of a pod that waits and, if ``event``, record the Event FailedScheduling."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    event: bool


class ReportScheduled(NamedTuple):
    """Record the Event Scheduled, or a warning that goes with it."""

    uid: str
    namespace: str
    name: str
    message: str
    reason: str = SCHEDULED

    @property
    def warning(self) -> bool:
        """Whether it is one."""
        return self.reason != SCHEDULED


class Reports:
    """What is to be told; ``pods`` are the pods as they are known now, by uid."""

    def __init__(self, pods: Mapping[str, PodView]) -> None:
        self._pods = pods
        self._pending: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages by the pod's uid, and whether there is to be an Event as well."""
        self._unknown: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Of pods that are not known (yet), the latest last."""
        self._waits: dict[str, str] = {}
        """Messages of pods that have a claim, which waits for a device plugin."""
        self._reported: dict[str, str] = {}
        self._scheduled: deque[ReportScheduled] = deque()

    @property
    def waiting(self) -> int:
        """How many pods have to be told something."""
        return len(self._pending) + len(self._scheduled)

    def explained(self, explanation: Explanation, *, event: bool) -> None:
        """A decision about a pod was explained; without ``event`` it stood on the bus before this process began."""
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
        self._scheduled.append(ReportScheduled(claim.uid, claim.namespace, claim.name, message))
        self._scheduled += [
            ReportScheduled(claim.uid, claim.namespace, claim.name, caveat, LIMIT) for caveat in caveats(claim.grants)
        ]

    def stuck(self, stuck: Stuck, waiting: Sequence[Claim]) -> None:
        """A device plugin does not serve a pod, and claims wait for that."""
        view = self._pods.get(stuck.uid)
        if view is None:
            return
        plugin, keys = " and ".join(stuck.plugins) or "the device plugin", " and ".join(stuck.keys)
        text = f"{plugin} of {stuck.node} does not serve this pod, which has {keys}: others like it wait until it ends"
        self._scheduled.append(ReportScheduled(view.uid, view.namespace, view.name, text, STUCK))
        for claim in waiting:
            self._waits[claim.uid] = (
                f"waits on {stuck.node}: {plugin} has not served pod {view.namespace}/{view.name} yet, which has {keys}"
            )
            self._report_wait(claim.uid)

    def _report_wait(self, uid: str) -> None:
        text = self._waits.get(uid)
        if text is not None and self._reported.get(uid) != text:
            self._pending[uid] = (text, True)

    def failed(self, reported: ReportPending) -> None:
        """A pod could not be told: the same message is not skipped the next time."""
        if self._reported.get(reported.uid) == reported.message:
            del self._reported[reported.uid]

    def take(self, writes: int) -> list[ReportPending | ReportScheduled]:
        """Return what is to be told now, in about so many writes: of bindings and of pods that wait in turn."""
        reported: list[ReportPending | ReportScheduled] = []
        while writes > 0:
            scheduled, pending = self.take_scheduled(), self.take_pending()
            if scheduled is None and pending is None:
                break
            reported += [one for one in (scheduled, pending) if one is not None]
            writes -= (scheduled is not None) + (0 if pending is None else 1 + pending.event)
        return reported

    def take_pending(self) -> ReportPending | None:
        """Return the pod that has waited longest for its message, None where there is none."""
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
        """Return the next pod of which the binding is to be told."""
        return self._scheduled.popleft() if self._scheduled else None
