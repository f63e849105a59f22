"""The statuses of PodGroups and Queues: phase, counts of pods, conditions.

Values and their meaning are Volcano's (pkg/scheduler/framework/session.go, pkg/scheduler/plugins/gang). A group is
Pending until placement admits it to its queue: Volcano's Job controller creates pods only then.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

import msgspec
from deviceshare.model import ADMITTED, DEFAULT_QUEUE, Explanation, ResourceAmounts, sign_admission
from deviceshare.queueing import ROOT, add
from deviceshare_cluster.interface import EventRecord, StatusValue

from deviceshare_binder.core.commands import Annotate, GroupCondition, RecordEvent, SetStatus
from deviceshare_binder.core.queues import OPEN, as_quantities, with_parents
from deviceshare_binder.core.views import PodGroupView, PodView, QueueView

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
NOT_ENOUGH = "NotEnoughResources"
RETURNED = "PromiseReturned"
"""Reason of Events about PodGroups that cannot start and keep no others out of their queue."""
MAX_UNKNOWN = 10_000
"""Admitted PodGroups that are kept before they are known; most of them are gone, their explanations stay for a day."""
_WAITS, _BOUND, _RUNS, _SUCCEEDED, _FAILED = "waits", "bound", "runs", "succeeded", "failed"


class _Group(msgspec.Struct, eq=False):
    """A PodGroup, or one that pods name before it is known."""

    view: PodGroupView | None = None
    pods: dict[str, str] = {}
    charged: dict[str, ResourceAmounts] = {}
    """The usage of each pod that is bound and has not ended."""
    allocated: Counter[str] = msgspec.field(default_factory=Counter)
    """The sum of ``charged``."""
    admitted: str = ""
    """The uid with which placement admitted it, while its phase does not show this yet."""
    unsigned: tuple[str, str] | None = None
    """The uid and terms with which placement admitted it, until our signature of them is written."""
    returned: tuple[str, str] = ("", "")
    """The uid with which it gave back what its queue promised it, and a text with the reason; '' if it did not."""
    unreported: bool = False
    """Whether an Event has to say so."""
    message: str = ""
    """Why it or a pod of it waits."""
    reason: str = NOT_ENOUGH
    """The same as the reason of a condition."""
    reported: SetStatus | None = None
    counted: tuple[str, str] | None = None
    """The queue and the phase under which it is counted in the status of its queue."""
    written: list[str] = []
    """Phases that were reported and that the PodGroup has not shown yet, in order."""

    def shows(self, phase: str) -> None:
        """Apply the phase of the PodGroup; if another writer changed it, the status is reported again."""
        if phase in self.written:
            # Of several changes only the last one may be seen.
            while self.written and phase in self.written:
                del self.written[0]
        elif self.reported is not None and not self.written and phase != self.reported.status[0][1]:
            self.reported = None


class Groups:
    """Follows PodGroups, Queues and pods; ``keys`` sign the admission of PodGroups."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = keys
        self._groups: dict[str, _Group] = {}
        self._unknown: dict[str, None] = OrderedDict()
        """PodGroups that are known from a decision alone, the latest last."""
        self._group_of: dict[str, str] = {}
        """The group of each pod, by uid."""
        self._queues: dict[str, QueueView] = {}
        self._queues_reported: dict[str, SetStatus] = {}
        self._phases: dict[str, Counter[str]] = {}
        """How many of each queue's PodGroups have each phase."""
        self._allocated: dict[str, Counter[str]] = {}
        """The usage of the pods of each queue's own groups; a queue without usage is missing."""
        self._dirty_groups: dict[str, None] = OrderedDict()
        self._dirty_queues: dict[str, None] = OrderedDict()
        """PodGroups and Queues to re-evaluate, in order."""

    def of_pod(self, uid: str) -> PodGroupView | None:
        """Return the PodGroup of a pod, None if it has none or it is not known."""
        group = self._groups.get(self._group_of.get(uid, ""))
        return None if group is None else group.view

    @property
    def waiting(self) -> int:
        """The number of objects to re-evaluate."""
        return len(self._dirty_groups) + len(self._dirty_queues)

    def group(self, key: str, view: PodGroupView | None) -> None:
        """Apply a PodGroup's state, None if it is gone."""
        group = self._known(key)
        before, group.view = group.view, view
        if view is not None and view.phase not in ("", PENDING):
            group.admitted = ""
        if before is None or view is None or before.uid != view.uid:
            group.reported, group.written = None, []
        elif before.phase != view.phase:
            group.shows(view.phase)
        self._count(group)
        self._dirty_groups[key] = None
        for one, sign in ((before, -1), (view, 1)):
            if one is not None:
                _add_to_queue(self._allocated, one.queue, group.allocated.items(), sign)
                self._touch_queue(one.queue)
        if view is None and not group.pods:
            del self._groups[key]

    def forget_reported(self) -> None:
        """Report all statuses again: another replica has written them meanwhile."""
        self._queues_reported.clear()
        self._dirty_queues |= dict.fromkeys(self._queues)
        for key, group in self._groups.items():
            group.reported, group.written = None, []
            self._count(group)
            self._dirty_groups[key] = None

    def _known(self, key: str) -> _Group:
        """Return a PodGroup that a fact names, a new one if there is none."""
        self._unknown.pop(key, None)
        return self._groups.setdefault(key, _Group())

    def queue(self, name: str, view: QueueView | None) -> None:
        """Apply a Queue's state, None if it is gone."""
        self._touch_queue(name)
        if view is None:
            self._queues.pop(name, None)
            self._queues_reported.pop(name, None)
        else:
            self._queues[name] = view
            self._touch_queue(name)

    @property
    def missing_queues(self) -> list[str]:
        """The Queues of the system that do not exist."""
        return [name for name in (ROOT, DEFAULT_QUEUE) if name not in self._queues]

    def pod(self, uid: str, view: PodView | None) -> None:
        """Apply a pod's state, None if it is gone."""
        key = view.group if view is not None and not view.group.startswith("pod/") else ""
        before = self._group_of.get(uid, "")
        if before and before != key:
            self.charge(uid, ())
            group = self._groups[before]
            del group.pods[uid], self._group_of[uid]
            self._dirty_groups[before] = None
            if group.view is None and not group.pods:
                del self._groups[before]
        if view is None or not key:
            return
        self._group_of[uid] = key
        group = self._known(key)
        if view.ended:
            state = _SUCCEEDED if view.succeeded else _FAILED
        elif view.node:
            state = _RUNS if view.running else _BOUND
        else:
            state = _WAITS
        if group.pods.get(uid) != state:
            group.pods[uid] = state
            self._dirty_groups[key] = None

    def charge(self, uid: str, amounts: ResourceAmounts) -> None:
        """Apply the usage of a pod of a group, () for none."""
        group = self._groups.get(self._group_of.get(uid, ""))
        if group is None:
            return
        before = group.charged.pop(uid, ())
        if amounts:
            group.charged[uid] = amounts
        if before == amounts:
            return
        for changed, sign in ((before, -1), (amounts, 1)):
            add(group.allocated, changed, sign)
            if group.view is not None:
                _add_to_queue(self._allocated, group.view.queue, changed, sign)
        if group.view is not None:
            self._touch_queue(group.view.queue)

    def explained(self, explanation: Explanation) -> None:
        """Placement explained why a pod waits."""
        key = self._group_of.get(explanation.uid)
        if key is not None and not explanation.gang_ready:
            self._waits(key, explanation.message, explanation.gang_reason or NOT_ENOUGH)

    def decided(self, explanation: Explanation) -> None:
        """Placement admitted a group to its queue, or rejected it."""
        key = explanation.group
        group = self._groups.get(key)
        if group is None:
            if explanation.decision != ADMITTED:
                return  # it is gone, or placement decides again when it is known
            group = self._groups[key] = _Group()
            self._unknown[key] = None
            if len(self._unknown) > MAX_UNKNOWN:
                oldest = next(iter(self._unknown))
                del self._unknown[oldest], self._groups[oldest]
        group.admitted = explanation.uid if explanation.decision == ADMITTED else ""
        signs = bool(self._keys and group.admitted and explanation.admission)
        group.unsigned = (explanation.uid, explanation.admission) if signs else None
        returned = (explanation.uid, explanation.returned) if explanation.returned else ("", "")
        if not group.admitted or explanation.uid not in (returned[0], group.returned[0]):
            self._waits(key, "" if group.admitted else explanation.message, NOT_ENOUGH)
        group.unreported = bool(explanation.returned) and (group.unreported or group.returned != returned)
        group.returned = returned
        self._dirty_groups[key] = None

    def _waits(self, key: str, message: str, reason: str) -> None:
        group = self._groups[key]
        if (group.message, group.reason) != (message, reason):
            group.message, group.reason = message, reason
            self._dirty_groups[key] = None

    def take(self, most: int) -> list[SetStatus | Annotate | RecordEvent]:
        """Return the next statuses, signatures of admissions and Events to write, ``most`` at most.

        The status of a PodGroup follows its signature. Those of Queues come last: they depend on their PodGroups.
        """
        found: list[SetStatus | Annotate | RecordEvent] = []
        for dirty, evaluate in ((self._dirty_groups, self._evaluate_group), (self._dirty_queues, self._evaluate_queue)):
            while dirty and len(found) < most:
                key = next(iter(dirty))
                if dirty is self._dirty_groups and (first := self._sign(key) or self._event(key)) is not None:
                    found.append(first)
                    continue
                del dirty[key]
                if (status := evaluate(key)) is not None:
                    found.append(status)
        return found

    def _sign(self, key: str) -> Annotate | None:
        """Return the signature of the admission of a PodGroup, once; inventory trusts no phase without it."""
        group = self._groups.get(key)
        if group is None or group.view is None or group.unsigned is None:
            return None
        (uid, terms), group.unsigned = group.unsigned, None
        if uid != group.view.uid or group.view.admitted:
            return None
        namespace, _, name = key.partition("/")
        annotations: dict[str, str | None] = {**sign_admission(self._keys, uid, terms)}
        return Annotate(kind="PodGroup", namespace=namespace, name=name, uid=uid, annotations=annotations)

    def _event(self, key: str) -> RecordEvent | None:
        """Return the Event about a PodGroup that gave back what its queue promised it, once."""
        group = self._groups.get(key)
        if group is None or group.view is None or not group.unreported:
            return None
        group.unreported = False
        uid, text = group.returned
        if uid != group.view.uid:
            return None
        namespace, _, name = key.partition("/")
        note = f"The PodGroup {text}"
        return RecordEvent(
            record=EventRecord("PodGroup", namespace, name, uid, True, RETURNED, note, at=0.0, once=True)
        )

    def _count(self, group: _Group) -> None:
        """Count a group in its queue under the phase that was reported."""
        counted = None
        if group.view is not None and group.reported is not None:
            counted = group.view.queue, str(group.reported.status[0][1])
        for each, sign in ((group.counted, -1), (counted, 1)):
            if each is not None:
                queue, phase = each
                _add_to_queue(self._phases, queue, ((phase, 1),), sign)
        group.counted = counted

    def _touch_queue(self, name: str) -> None:
        """Re-evaluate a queue and its ancestors."""
        for each in with_parents(name, self._queues):
            self._dirty_queues[each] = None

    def _evaluate_group(self, key: str) -> SetStatus | None:
        group = self._groups.get(key)
        if group is None or group.view is None:
            return None
        counts = Counter(group.pods.values())
        numbers = ((_SUCCEEDED, counts[_SUCCEEDED]), (_FAILED, counts[_FAILED]))
        namespace, _, name = key.partition("/")
        phase, condition = self._judge(group, group.view, counts)
        status = (("phase", phase), ("running", counts[_RUNS]), *numbers)
        before = group.reported
        group.reported = SetStatus(
            kind="PodGroup", namespace=namespace, name=name, uid=group.view.uid, status=status, condition=condition
        )
        self._count(group)
        if before is None or before.status[0] != group.reported.status[0]:
            self._dirty_queues[group.view.queue] = None
            if phase != group.view.phase:
                group.written.append(phase)
        return group.reported if group.reported != before else None

    def _judge(self, group: _Group, view: PodGroupView, counts: Counter[str]) -> tuple[str, GroupCondition | None]:
        scheduled = counts.total() - counts[_WAITS]
        ready = counts[_BOUND] + counts[_RUNS] + counts[_SUCCEEDED]
        unready = ready < view.min_member
        # Pods that wait without a message are being bound: a gang is bound pod by pod.
        message = group.message if counts[_WAITS] or not scheduled else ""
        if scheduled and unready and not counts[_WAITS]:
            message = f"{ready} of {view.min_member} pods are placed"
        if scheduled >= max(1, view.min_member) and not (message and unready and counts[_RUNS]):
            condition = GroupCondition("Scheduled", "tasks in gang are ready to be scheduled", "")
            return RUNNING if counts[_BOUND] or counts[_RUNS] else COMPLETED, condition
        in_queue = view.phase == INQUEUE or (bool(group.admitted) and group.admitted == view.uid)
        phase = INQUEUE if in_queue else PENDING
        if not message:
            return phase, None
        if in_queue and group.returned[0] == view.uid:
            message = f"{message.rstrip('.')}; the PodGroup gave back what its queue promised it"
        return UNKNOWN if counts[_RUNS] else phase, GroupCondition("Unschedulable", group.reason, message)

    def _evaluate_queue(self, name: str) -> SetStatus | None:
        queue = self._queues.get(name)
        if queue is None:
            return None
        phases = self._phases.get(name, Counter())
        allocated: Counter[str] = Counter()
        for queue_below, amounts in self._allocated.items():
            if name in with_parents(queue_below, self._queues):
                allocated.update(amounts)
        status: list[tuple[str, StatusValue]] = [
            (phase.lower(), phases[phase]) for phase in (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
        ]
        status.append(("allocated", as_quantities(allocated)))
        if not queue.state:
            # Volcano's queue controller, if it runs, does the same.
            status.append(("state", OPEN))
        reported = SetStatus(kind="Queue", name=name, status=tuple(status))
        if self._queues_reported.get(name) == reported:
            return None
        self._queues_reported[name] = reported
        return reported


def _add_to_queue(sums: dict[str, Counter[str]], queue: str, amounts: Iterable[tuple[str, int]], sign: int) -> None:
    """Add to the sums of a queue; a queue whose sums are 0 is removed."""
    add(sums.setdefault(queue, Counter()), amounts, sign)
    if not any(sums[queue].values()):
        del sums[queue]
