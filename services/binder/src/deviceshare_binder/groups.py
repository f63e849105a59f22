"""What users read on PodGroups and Queues: phase, counts of pods, conditions. Pure.

The words and their meaning are Volcano's (pkg/scheduler/framework/session.go, pkg/scheduler/plugins/gang). A group is
Pending until placement has let it into its queue: Volcano's Job controller makes pods only then.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from deviceshare.model import ADMITTED, Explanation, ResourceAmounts
from deviceshare.queueing import DEFAULT_QUEUE, ROOT, add
from deviceshare_cluster.interface import StatusValue

from deviceshare_binder.queues import OPEN, QueueView, as_quantities, with_parents
from deviceshare_binder.views import PodView

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
NOT_ENOUGH = "NotEnoughResources"
_WAITS, _BOUND, _RUNS, _SUCCEEDED, _FAILED = "waits", "bound", "runs", "succeeded", "failed"


class PodGroupView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="podgroup"):
    """The fields of a :class:`deviceshare.model.PodGroupFact` that its status depends on."""

    key: str
    uid: str = ""
    queue: str = DEFAULT_QUEUE
    min_member: int = 1
    phase: str = ""


class Condition(NamedTuple):
    """A condition of a PodGroup that is true."""

    type: str
    reason: str
    message: str


class StatusUpdate(NamedTuple):
    """Write these fields of an object's status, and a condition of it."""

    kind: str
    namespace: str
    name: str
    uid: str
    status: tuple[tuple[str, StatusValue], ...]
    condition: Condition | None = None


class _Group:
    """A PodGroup, or one that pods name before it is known."""

    __slots__ = ("admitted", "allocated", "charged", "message", "pods", "reason", "reported", "view", "written")

    def __init__(self) -> None:
        self.view: PodGroupView | None = None
        self.pods: dict[str, str] = {}
        self.charged: dict[str, ResourceAmounts] = {}
        """What each pod has that is bound and has not ended."""
        self.allocated: Counter[str] = Counter()
        """The sum of ``charged``."""
        self.admitted = ""
        """The uid by which placement let it into its queue, while its phase does not say so yet."""
        self.message = ""
        """Why it or a pod of it waits."""
        self.reason = NOT_ENOUGH
        """The same in one word."""
        self.reported: StatusUpdate | None = None
        self.written: list[str] = []
        """Phases that were told and that the PodGroup has not shown yet, in order."""

    def shows(self, phase: str) -> None:
        """Take in the phase of the PodGroup; where somebody else changed it, its status is told again."""
        if phase in self.written:
            # Of several changes only the last one may be seen.
            while self.written and phase in self.written:
                del self.written[0]
        elif self.reported is not None and not self.written and phase != self.reported.status[0][1]:
            self.reported = None


class Groups:
    """Follows PodGroups, Queues and pods."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        """The group of each pod, by uid."""
        self._queues: dict[str, QueueView] = {}
        self._queues_told: dict[str, StatusUpdate] = {}
        self._allocated: dict[str, Counter[str]] = {}
        """What the pods of each queue's own groups have; a queue where they have nothing is missing."""
        self._dirty_groups: dict[str, None] = {}
        self._dirty_queues: dict[str, None] = {}
        """PodGroups and Queues that have to be looked at, in order."""

    @property
    def waiting(self) -> int:
        """How many objects have to be looked at."""
        return len(self._dirty_groups) + len(self._dirty_queues)

    def group(self, key: str, view: PodGroupView | None) -> None:
        """Learn a PodGroup's state, None if it is gone."""
        group = self._groups.setdefault(key, _Group())
        before, group.view = group.view, view
        if view is not None and view.phase not in ("", PENDING):
            group.admitted = ""
        if before is None or view is None or before.uid != view.uid:
            group.reported, group.written = None, []
        elif before.phase != view.phase:
            group.shows(view.phase)
        self._touch(key)
        for one, sign in ((before, -1), (view, 1)):
            if one is not None:
                self._add_to_queue(one.queue, group.allocated.items(), sign)
                self._touch_queue(one.queue)
        if view is None and not group.pods:
            del self._groups[key]

    def queue(self, name: str, view: QueueView | None) -> None:
        """Learn a Queue's state, None if it is gone."""
        self._touch_queue(name)
        if view is None:
            self._queues.pop(name, None)
            self._queues_told.pop(name, None)
        else:
            self._queues[name] = view
            self._touch_queue(name)

    @property
    def missing_queues(self) -> list[str]:
        """The Queues of the system that do not exist."""
        return [name for name in (ROOT, DEFAULT_QUEUE) if name not in self._queues]

    def pod(self, uid: str, view: PodView | None) -> None:
        """Learn a pod's state, None if it is gone."""
        key = view.group if view is not None and not view.group.startswith("pod/") else ""
        before = self._group_of.get(uid, "")
        if before and before != key:
            self.charge(uid, ())
            group = self._groups[before]
            del group.pods[uid], self._group_of[uid]
            self._touch(before)
            if group.view is None and not group.pods:
                del self._groups[before]
        if view is None or not key:
            return
        self._group_of[uid] = key
        group = self._groups.setdefault(key, _Group())
        if view.ended:
            state = _SUCCEEDED if view.succeeded else _FAILED
        elif view.node:
            state = _RUNS if view.running else _BOUND
        else:
            state = _WAITS
        if group.pods.get(uid) != state:
            group.pods[uid] = state
            self._touch(key)

    def charge(self, uid: str, amounts: ResourceAmounts) -> None:
        """Learn what a pod of a group has, nothing for none."""
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
                self._add_to_queue(group.view.queue, changed, sign)
        if group.view is not None:
            self._touch_queue(group.view.queue)

    def _add_to_queue(self, queue: str, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        allocated = self._allocated.setdefault(queue, Counter())
        add(allocated, amounts, sign)
        if not any(allocated.values()):
            del self._allocated[queue]

    def explained(self, explanation: Explanation) -> None:
        """A pod waits, and why."""
        key = self._group_of.get(explanation.uid)
        if key is not None and not explanation.gang_ready:
            self._waits(key, explanation.message, explanation.gang_reason or NOT_ENOUGH)

    def decided(self, explanation: Explanation) -> None:
        """Placement let a group into its queue, or did not."""
        key = explanation.group
        if explanation.decision != ADMITTED and key not in self._groups:
            # It is gone, or placement will say more when it is known.
            return
        group = self._groups.setdefault(key, _Group())
        group.admitted = explanation.uid if explanation.decision == ADMITTED else ""
        self._waits(key, "" if group.admitted else explanation.message, NOT_ENOUGH)
        self._touch(key)

    def _waits(self, key: str, message: str, reason: str) -> None:
        group = self._groups[key]
        if (group.message, group.reason) != (message, reason):
            group.message, group.reason = message, reason
            self._touch(key)

    def take(self) -> StatusUpdate | None:
        """Return the next status that is not told yet.

        Those of Queues come last: they depend on their PodGroups, and two of one Queue must not be written at once.
        """
        for dirty, look_at in ((self._dirty_groups, self._look_at_group), (self._dirty_queues, self._look_at_queue)):
            while dirty:
                key = next(iter(dirty))
                del dirty[key]
                reported = look_at(key)
                if reported is not None:
                    return reported
        return None

    def failed(self, reported: StatusUpdate) -> None:
        """A status could not be written: it is looked at again."""
        if reported.kind == "Queue":
            self._queues_told.pop(reported.name, None)
            self._dirty_queues[reported.name] = None
        elif (group := self._groups.get(f"{reported.namespace}/{reported.name}")) is not None:
            group.reported = None
            self._dirty_groups[f"{reported.namespace}/{reported.name}"] = None

    def _touch(self, key: str) -> None:
        self._dirty_groups[key] = None

    def _touch_queue(self, name: str) -> None:
        """Look at a queue and those above it."""
        for each in with_parents(name, self._queues):
            self._dirty_queues[each] = None

    def _look_at_group(self, key: str) -> StatusUpdate | None:
        group = self._groups.get(key)
        if group is None or group.view is None:
            return None
        counts = Counter(group.pods.values())
        numbers = ((_SUCCEEDED, counts[_SUCCEEDED]), (_FAILED, counts[_FAILED]))
        namespace, _, name = key.partition("/")
        phase, condition = self._judge(group, group.view, counts)
        status = (("phase", phase), ("running", counts[_RUNS]), *numbers)
        before, group.reported = (
            group.reported,
            StatusUpdate("PodGroup", namespace, name, group.view.uid, status, condition),
        )
        if before is None or before.status[0] != group.reported.status[0]:
            self._dirty_queues[group.view.queue] = None
            if phase != group.view.phase:
                group.written.append(phase)
        return group.reported if group.reported != before else None

    def _judge(self, group: _Group, view: PodGroupView, counts: Counter[str]) -> tuple[str, Condition | None]:
        scheduled = counts.total() - counts[_WAITS]
        ready = counts[_BOUND] + counts[_RUNS] + counts[_SUCCEEDED]
        unready = ready < view.min_member
        # Pods that wait without a message are on their way: a gang is bound pod by pod.
        message = group.message if counts[_WAITS] or not scheduled else ""
        if scheduled and unready and not counts[_WAITS]:
            message = f"{ready} of {view.min_member} pods are placed"
        if scheduled >= max(1, view.min_member) and not (message and unready and counts[_RUNS]):
            condition = Condition("Scheduled", "tasks in gang are ready to be scheduled", "")
            return RUNNING if counts[_BOUND] or counts[_RUNS] else COMPLETED, condition
        in_queue = view.phase == INQUEUE or (bool(group.admitted) and group.admitted == view.uid)
        phase = INQUEUE if in_queue else PENDING
        if not message:
            return phase, None
        return UNKNOWN if counts[_RUNS] else phase, Condition("Unschedulable", group.reason, message)

    def _look_at_queue(self, name: str) -> StatusUpdate | None:
        queue = self._queues.get(name)
        if queue is None:
            return None
        phases = Counter(
            str(group.reported.status[0][1])
            for group in self._groups.values()
            if group.view is not None and group.view.queue == name and group.reported is not None
        )
        allocated: Counter[str] = Counter()
        for queue_below, amounts in self._allocated.items():
            if name in with_parents(queue_below, self._queues):
                allocated.update(amounts)
        status: list[tuple[str, StatusValue]] = [
            (phase.lower(), phases[phase]) for phase in (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
        ]
        status.append(("allocated", as_quantities(allocated)))
        if not queue.state:
            # Volcano's queue controller does so as well, where it runs.
            status.append(("state", OPEN))
        reported = StatusUpdate("Queue", "", name, "", tuple(status))
        if self._queues_told.get(name) == reported:
            return None
        self._queues_told[name] = reported
        return reported
