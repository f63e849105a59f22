"""Reports about pods: the condition ``PodScheduled`` and the Events FailedScheduling, Scheduled and others.

Why a pod waits is reported when the message changes, the newest message only.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence, Set

from deviceshare.families import caveats
from deviceshare.families.dra import DeviceConflict
from deviceshare.model import PENDING, Claim, Explanation
from deviceshare_cluster.interface import EventRecord

from deviceshare_binder.core.claim_records import text_of
from deviceshare_binder.core.commands import RecordEvent, SetPodCondition
from deviceshare_binder.core.plugin_handoff import Stuck
from deviceshare_binder.core.views import OtherPodView, PodView

SCHEDULED, LIMIT, STUCK = "Scheduled", "DevicePluginLimit", "DevicePluginStuck"
"""Reasons of Events about pods that are bound."""
FAILED_SCHEDULING = "FailedScheduling"
"""Reason of Events about pods that wait, and about pods whose binding the API server does not permit."""
UNSCHEDULABLE = "Unschedulable"
GATED = "SchedulingGated"
MAX_UNKNOWN = 10_000
"""Explanations of unknown pods that are kept: most of these pods are gone, their explanations stay for a day."""
MAX_REPEATED = 100
"""Events that the former replica may have recorded already and that are recorded again, at most."""
CONDITIONS_PENDING = "BindingConditionsPending"
"""Reason of Events about pods whose devices are being attached, as of kube-scheduler."""
CONFLICT = "DeviceConflict"
"""Reason of Events about pods whose ResourceClaims have devices that others have as well."""
MAX_INFORMED = 16
"""Pods of a ResourceClaim that have an Event about a conflict."""
MAX_SCHEDULED = 10_000
"""Events of bound pods that wait to be written; beyond this number the oldest are dropped."""


class Reports:
    """The reports to write; ``pods`` are the known pods by uid."""

    def __init__(self, pods: Mapping[str, PodView]) -> None:
        self._pods = pods
        self._pending: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages by the pod's uid, and whether an Event is recorded as well."""
        self._unknown: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages for pods that are not known (yet), the latest last."""
        self._claims: dict[str, int] = {}
        """For each pod's uid: on how many nodes it has a claim."""
        self._overruled: dict[str, tuple[str, bool]] = {}
        """Messages for pods that have a claim by now: they hold again if the claim is removed and the pod waits."""
        self._own: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        """Messages for pods whose claim waits on a node of this replica, which no other replica knows."""
        self._waits: dict[str, str] = {}
        """Messages for pods whose claim waits for a device plugin."""
        self._reported: dict[str, str] = {}
        self._scheduled: deque[EventRecord] = deque()
        self._dropped = 0

    @property
    def waiting(self) -> int:
        """The number of reports to write."""
        return len(self._pending) + self.events

    @property
    def events(self) -> int:
        """The number of reports to write about what this replica did, and why its claims wait."""
        return len(self._scheduled) + len(self._own)

    def take_dropped(self) -> int:
        """Return how many reports were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def explained(self, explanation: Explanation, *, event: bool) -> None:
        """A decision about a pod was explained; without ``event`` the message is older than this process."""
        uid = explanation.uid
        if uid in self._claims and uid in self._pods and explanation.decision == PENDING:
            # LEDGER and EXPLAIN are read in any order: the pod waited before, or its claim is being removed.
            self._overruled[uid] = (explanation.message, event)
            return
        self._drop(uid)
        self._unknown.pop(uid, None)
        if explanation.decision != PENDING:
            self._report_wait(uid)
            return
        self._waits.pop(uid, None)
        if uid not in self._pods:
            self._unknown[uid] = (explanation.message, event)
            if len(self._unknown) > MAX_UNKNOWN:
                self._unknown.popitem(last=False)
        elif self._reported.get(uid) != explanation.message:
            self._pending[uid] = (explanation.message, event)

    def hand_over(self) -> None:
        """Another replica reports why pods wait: what was reported here may not be the last report any more."""
        for uid, (message, _) in self._pending.items():
            self._reported[uid] = message
        self._pending = OrderedDict((uid, (message, False)) for uid, message in self._reported.items())
        self._reported.clear()

    def take_over(self) -> None:
        """Report why pods wait in place of another replica: all of it, with Events only of what was explained last.

        The former one has recorded the others, or has ended before it could.
        """
        for uid in list(self._pending)[:-MAX_REPEATED]:
            self._pending[uid] = (self._pending[uid][0], False)

    def claimed(self, before: Set[str], after: Set[str]) -> None:
        """Apply that the claims on a node changed: the uids of their pods ``before`` and ``after``."""
        for uid in sorted(after - before):
            self._claims[uid] = self._claims.get(uid, 0) + 1
            if (waits := self._pending.pop(uid, None)) is not None:
                self._overruled[uid] = waits
        for uid in sorted(before - after):
            self._claims[uid] -= 1
            if not self._claims[uid]:
                del self._claims[uid]
                self._hold_again(uid)

    def _hold_again(self, uid: str) -> None:
        """Report why a pod waits whose claim was removed, if that is known; placement may have another reason soon."""
        waits = self._overruled.pop(uid, None)
        if waits is None:
            return
        self._drop(uid)
        self._waits.pop(uid, None)
        if self._reported.get(uid) != waits[0]:
            self._pending[uid] = waits

    def pod(self, uid: str, view: PodView | None) -> None:
        """A pod changed, None if it is gone."""
        if view is None or view.node or view.ended:
            self._drop(uid)
            self._overruled.pop(uid, None)
            self._unknown.pop(uid, None)
            self._reported.pop(uid, None)
            self._waits.pop(uid, None)
        elif uid in self._unknown:
            (self._overruled if uid in self._claims else self._pending)[uid] = self._unknown.pop(uid)

    def bound(self, claim: Claim, node: str) -> None:
        """A claim was bound."""
        self._drop(claim.uid)
        self._overruled.pop(claim.uid, None)
        self._reported.pop(claim.uid, None)
        self._waits.pop(claim.uid, None)
        self._add(claim, SCHEDULED, f"Successfully assigned {claim.namespace}/{claim.name} to {node}")
        for caveat in caveats(claim.grants):
            self._add(claim, LIMIT, caveat)

    def stuck(self, stuck: Stuck, view: PodView | OtherPodView, waiting: Sequence[Claim]) -> None:
        """A device plugin does not serve a pod, for which claims wait."""
        plugin, keys = " and ".join(stuck.plugins) or "the device plugin", " and ".join(stuck.keys)
        node, pod = stuck.node, f"pod {view.namespace}/{view.name}"
        if isinstance(view, PodView) and view.node == node:
            unserved = f"does not serve this pod, which has {keys}, or kubelet does not report that it has admitted it"
            text = f"{plugin} of {node} {unserved}: others like it wait until it runs or ends"
            waits = f"{plugin} has not served {pod} yet, which has {keys}, or kubelet has not admitted it"
        else:
            text = (
                f"the annotations of this pod, which is not on {node}, let {plugin} of {node} serve it as one with "
                f"{keys}: others like it wait until the annotations are removed"
            )
            waits = f"{plugin} may serve {pod}, which is not on this node and whose annotations name {keys} of it"
        self._add(view, STUCK, text)
        for claim in waiting:
            self.paused(claim, stuck.node, waits)

    def behind(self, stuck: Stuck, view: PodView | OtherPodView | None, waiting: Sequence[Claim]) -> None:
        """Claims wait for a pod, None if it is not known, of which no fact shows yet whether it was bound."""
        pod = f"the pod with uid {stuck.uid}" if view is None else f"pod {view.namespace}/{view.name}"
        reason = (
            f"{pod}, which has {' and '.join(stuck.keys)} as well, is being bound there, and the result is not known"
        )
        for claim in waiting:
            self.paused(claim, stuck.node, reason)

    def conditions_pending(self, claim: Claim, node: str, text: str) -> None:
        """A claim waits for binding conditions of devices."""
        self._add(claim, CONDITIONS_PENDING, f"waits for binding conditions of devices on {node}: {text}")

    def paused(self, claim: Claim, node: str, reason: str) -> None:
        """A claim waits on its node."""
        self._waits[claim.uid] = f"waits on {node}: {reason}"
        self._report_wait(claim.uid)

    def _report_wait(self, uid: str) -> None:
        text = self._waits.get(uid)
        if text is not None and self._reported.get(uid) != text:
            self._own[uid] = (text, True)

    def _drop(self, uid: str) -> None:
        """Report nothing of a pod that waits no more, or for another reason."""
        self._pending.pop(uid, None)
        self._own.pop(uid, None)

    def refused(self, claim: Claim, message: str) -> None:
        """The API server does not permit what a claim needs."""
        self._add(claim, FAILED_SCHEDULING, message)

    def conflict(self, conflict: DeviceConflict) -> None:
        """Two ResourceClaims have one device: the pods that use them, which may be other schedulers', are informed."""
        for fact in conflict.claim, conflict.other:
            namespace, text = fact.key.partition("/")[0], text_of(conflict, fact.key)
            for uid, name in list(zip(fact.reserved_for, fact.reserved_names, strict=False))[:MAX_INFORMED]:
                self.event(EventRecord("Pod", namespace, name, uid, True, CONFLICT, text, at=0.0, once=True))

    def failed(self, uid: str, message: str) -> None:
        """A report was given up: the same message is reported again with the next decision."""
        if self._reported.get(uid) == message:
            del self._reported[uid]

    def event(self, record: EventRecord) -> None:
        """Something has happened to a pod or to its group, to be recorded as an Event at the time of the write."""
        self._scheduled.append(record)
        if len(self._scheduled) > MAX_SCHEDULED:
            self._scheduled.popleft()
            self._dropped += 1

    def _add(self, pod: Claim | PodView | OtherPodView, reason: str, message: str) -> None:
        warning = reason not in (SCHEDULED, CONDITIONS_PENDING)
        self.event(EventRecord("Pod", pod.namespace, pod.name, pod.uid, warning, reason, message, at=0.0, once=True))

    def take(self, writes: int, at: float, *, waits: bool = True) -> list[SetPodCondition | RecordEvent]:
        """Return the reports to write at a unix time, about so many: of bound and, with ``waits``, of waiting pods."""
        taken: list[SetPodCondition | RecordEvent] = []
        while (self.waiting if waits else self.events) and len(taken) < writes:
            if self._scheduled:
                taken.append(RecordEvent(record=self._scheduled.popleft()._replace(at=at)))
            taken += self._take_pending(self._own, at)
            if waits:
                taken += self._take_pending(self._pending, at)
        return taken

    def _take_pending(
        self, pending: OrderedDict[str, tuple[str, bool]], at: float
    ) -> list[SetPodCondition | RecordEvent]:
        """Return the oldest report about a waiting pod: its condition and, if requested, an Event."""
        while pending:
            uid, (message, event) = pending.popitem(last=False)
            view = self._pods.get(uid)
            if view is None or view.node or view.ended:
                continue
            self._reported[uid] = message
            namespace, name, reason = view.namespace, view.name, GATED if view.gates else UNSCHEDULABLE
            condition = SetPodCondition(namespace=namespace, name=name, uid=uid, reason=reason, message=message, at=at)
            record = EventRecord("Pod", namespace, name, uid, True, FAILED_SCHEDULING, message, at)
            return [condition, RecordEvent(record=record)] if event else [condition]
        return []
