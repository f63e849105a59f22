"""Pods in their groups, and which groups are to be checked: whether they can be decided."""

from collections.abc import Iterable

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, PodFact
from deviceshare.queueing import ROOM, Dispatcher, EnqueueAction, Queues
from deviceshare.scheduler.records import GroupRecord, PodRecord

MAX_MOVED = 10_000
"""Pods that are gone and are remembered, besides two for each that there is, until victims are looked for again."""


class WaitingGroups:
    """The groups, and what makes them be checked in the next round."""

    def __init__(self, conf: SchedulerConf) -> None:
        self.allocator = Allocator(conf)
        self.accounts = Queues(conf)
        """The accounts of the queues: what their pods hold and request, and their limits."""
        self.dispatcher = Dispatcher(self.allocator, self.accounts, conf)
        """The groups that can be decided, in their queues."""
        self.enqueue = EnqueueAction(self.accounts, conf)
        """The groups that wait to be admitted to their queues."""
        self.pods: dict[str, PodRecord] = {}
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.candidates: set[GroupKey] = set()
        """Groups to check in the next round: whether they can be decided."""
        self.too_wide: set[GroupKey] = set()
        """Groups that span too many nodes with the room that there is now."""
        self.relabelled: set[str] = set()
        """Namespaces whose groups to check in the next round: their labels have changed, by which queues select."""
        self.changes = 0
        """Grows with everything that may change for whom pods go."""
        self.moved: set[str] | None = None
        """The pods that may have moved, or changed, since victims were looked for; None until they are."""

    def group(self, key: GroupKey) -> GroupRecord:
        """Return a group, a new one if it was never seen."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = GroupRecord(key)
        return group

    def queue_of(self, pod: PodFact) -> str:
        """Return the name of the queue that a pod is in: its PodGroup's, if that is known."""
        group = self.groups.get(pod.group)
        return pod.queue if group is None or group.fact is None else group.fact.queue

    def queue_of_group(self, group: GroupRecord) -> str:
        """Return the queue of a group, '' for a group without objects."""
        if group.fact is not None:
            return group.fact.queue
        return self.pods[min(group.members)].fact.queue if group.members else ""

    def mark_moved(self, uids: Iterable[str]) -> None:
        """Note that pods may have moved, or changed, for those who look for victims."""
        self.changes += 1
        if self.moved is not None:
            self.moved.update(uids)
            if len(self.moved) > MAX_MOVED + 2 * len(self.pods):
                self.moved = None  # they are all read again

    def reconsider(self, key: GroupKey) -> None:
        """Check a group in the next round."""
        self.dispatcher.discard(key)
        self.enqueue.discard(key)
        self.too_wide.discard(key)
        self.candidates.add(key)

    def changed(self, pod: PodRecord) -> None:
        """Check the group of a pod that has changed in the next round.

        A pod without a PodGroup that does not wait needs no check: nothing else depends on it.
        """
        key = pod.fact.group
        self.reconsider(key)
        if not pod.waits and (group := self.groups.get(key)) is not None and group.single:
            self.candidates.discard(key)

    def reconsider_pod(self, uid: str) -> None:
        """Check the group of a pod in the next round."""
        record = self.pods.get(uid)
        if record is not None:
            self.reconsider(record.fact.group)

    def reconsider_all(self) -> None:
        """Check every group in the next round."""
        self.changes += 1
        for key in self.groups:
            self.reconsider(key)

    def reconsider_relabelled(self) -> None:
        """Check the groups of :attr:`relabelled` namespaces, all in one pass."""
        changed, self.relabelled = self.relabelled, set()
        for group in self.groups.values() if changed else ():
            if self._namespace_of(group) in changed:
                self.reconsider(group.key)

    def _namespace_of(self, group: GroupRecord) -> str:
        return next((self.pods[uid].fact.namespace for uid in group.members), group.key.partition("/")[0])

    def made_room(self, room: int = ROOM) -> None:
        """Retry the groups that lack room, since there may be ``room`` now: on nodes, or for pods with claims."""
        self.changes += 1
        self.dispatcher.made_room(room)
        self.candidates |= self.too_wide
        self.too_wide.clear()

    def drop_if_empty(self, group: GroupRecord) -> None:
        """Remove a group without a PodGroup and pods."""
        if group.empty:
            self.groups.pop(group.key, None)
            self.candidates.discard(group.key)
            self.too_wide.discard(group.key)
            self.dispatcher.discard(group.key)
            self.enqueue.discard(group.key)
