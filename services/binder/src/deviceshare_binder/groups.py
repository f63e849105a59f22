"""What users read on PodGroups and Queues: phase, counts of pods, conditions. Pure.

The words and their meaning are Volcano's (pkg/scheduler/framework/session.go, pkg/scheduler/plugins/gang). A group is
Pending until placement has let it into its queue: Volcano's Job controller makes pods only then.
"""

from collections import Counter
from typing import NamedTuple

import msgspec
from deviceshare.explain import ADMITTED, Explanation

from deviceshare_binder.views import PodView

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
NOT_ENOUGH = "NotEnoughResources"
_WAITS, _BOUND, _RUNS, _SUCCEEDED, _FAILED = "waits", "bound", "runs", "succeeded", "failed"


class PodGroupView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="podgroup"):
    """The fields of a :class:`deviceshare.facts.PodGroupFact` that its status depends on."""

    key: str
    uid: str = ""
    queue: str = "default"
    min_member: int = 1
    admitted: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="queue"):
    """The fields of a :class:`deviceshare.facts.QueueFact` that its status depends on."""

    name: str


class Condition(NamedTuple):
    """A condition of a PodGroup that is true."""

    type: str
    reason: str
    message: str


class TellStatus(NamedTuple):
    """Write these fields of an object's status, and a condition of it."""

    kind: str
    namespace: str
    name: str
    uid: str
    status: tuple[tuple[str, str | int], ...]
    condition: Condition | None = None


class _Group:
    """A PodGroup, or one that pods name before it is known."""

    __slots__ = ("admitted", "message", "pods", "reason", "told", "view")

    def __init__(self) -> None:
        self.view: PodGroupView | None = None
        self.pods: dict[str, str] = {}
        self.admitted = ""
        """The uid by which placement let it into its queue, '' if it did not."""
        self.message = ""
        """Why it or a pod of it waits."""
        self.reason = NOT_ENOUGH
        """The same in one word."""
        self.told: TellStatus | None = None


class Groups:
    """Follows PodGroups, Queues and pods."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        """The group of each pod, by uid."""
        self._queues: set[str] = set()
        self._queues_told: dict[str, TellStatus] = {}
        self._dirty: dict[tuple[str, str], None] = {}
        """Kind and key of what has to be looked at, in order."""

    @property
    def waiting(self) -> int:
        """How many objects have to be looked at."""
        return len(self._dirty)

    def group(self, key: str, view: PodGroupView | None) -> None:
        """Learn a PodGroup's state, None if it is gone."""
        group = self._groups.setdefault(key, _Group())
        before, group.view = group.view, view
        if before is None or view is None or before.uid != view.uid:
            group.told = None
        self._touch(key)
        if before is not None:
            self._dirty["Queue", before.queue] = None
        if view is None and not group.pods:
            del self._groups[key]

    def queue(self, name: str, view: QueueView | None) -> None:
        """Learn a Queue's state, None if it is gone."""
        if view is None:
            self._queues.discard(name)
            self._queues_told.pop(name, None)
        else:
            self._queues.add(name)
            self._dirty["Queue", name] = None

    def pod(self, uid: str, view: PodView | None) -> None:
        """Learn a pod's state, None if it is gone."""
        key = view.group if view is not None and not view.group.startswith("pod/") else ""
        before = self._group_of.get(uid, "")
        if before and before != key:
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

    def explained(self, explanation: Explanation) -> None:
        """A pod waits, and why."""
        key = self._group_of.get(explanation.uid)
        if key is not None:
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

    def take(self) -> TellStatus | None:
        """Return the next status that is not told yet."""
        while self._dirty:
            kind, key = next(iter(self._dirty))
            del self._dirty[kind, key]
            told = self._look_at_group(key) if kind == "PodGroup" else self._look_at_queue(key)
            if told is not None:
                return told
        return None

    def failed(self, told: TellStatus) -> None:
        """A status could not be written: it is looked at again."""
        if told.kind == "Queue":
            self._queues_told.pop(told.name, None)
            self._dirty["Queue", told.name] = None
        elif (group := self._groups.get(f"{told.namespace}/{told.name}")) is not None:
            group.told = None
            self._dirty["PodGroup", f"{told.namespace}/{told.name}"] = None

    def _touch(self, key: str) -> None:
        self._dirty["PodGroup", key] = None

    def _look_at_group(self, key: str) -> TellStatus | None:
        group = self._groups.get(key)
        if group is None or group.view is None:
            return None
        counts = Counter(group.pods.values())
        numbers = ((_SUCCEEDED, counts[_SUCCEEDED]), (_FAILED, counts[_FAILED]))
        namespace, _, name = key.partition("/")
        phase, condition = self._judge(group, group.view, counts)
        status = (("phase", phase), ("running", counts[_RUNS]), *numbers)
        before, group.told = group.told, TellStatus("PodGroup", namespace, name, group.view.uid, status, condition)
        if before is None or before.status[0] != group.told.status[0]:
            self._dirty["Queue", group.view.queue] = None
        return group.told if group.told != before else None

    def _judge(self, group: _Group, view: PodGroupView, counts: Counter[str]) -> tuple[str, Condition | None]:
        scheduled = counts.total() - counts[_WAITS]
        if scheduled and scheduled >= view.min_member:
            ready = Condition("Scheduled", "tasks in gang are ready to be scheduled", "")
            return RUNNING if counts[_BOUND] or counts[_RUNS] else COMPLETED, ready
        admitted = view.admitted or (bool(group.admitted) and group.admitted == view.uid)
        if not group.message or (admitted and not counts[_WAITS]):
            return INQUEUE if admitted else PENDING, None
        waits = Condition("Unschedulable", group.reason, group.message)
        return UNKNOWN if counts[_RUNS] else INQUEUE if admitted else PENDING, waits

    def _look_at_queue(self, name: str) -> TellStatus | None:
        if name not in self._queues:
            return None
        phases = Counter(
            str(group.told.status[0][1])
            for group in self._groups.values()
            if group.view is not None and group.view.queue == name and group.told is not None
        )
        status = tuple((phase.lower(), phases[phase]) for phase in (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED))
        told = TellStatus("Queue", "", name, "", status)
        if self._queues_told.get(name) == told:
            return None
        self._queues_told[name] = told
        return told
