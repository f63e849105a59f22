"""Which part of the work this replica of placement does.

A queue has one owner, so that its bounds hold exactly. Queues under a bounded ancestor have one owner together. A large
queue without bounds is divided further, by its groups. Repairs of a ledger belong to the owner of its node.

Replicas read the facts of queues and groups at different times. Who becomes the owner of a group by a fact begins when
all others have read this fact, and have completed what they had begun before.
"""

from zlib import crc32

from deviceshare.model import QueueFact
from deviceshare.queueing import ROOT
from deviceshare.scheduler import GroupRecord, Scheduler
from deviceshare_bus.cores.division import Division
from deviceshare_bus.messages.subjects import PARTITIONS, partition

SPLIT_ABOVE = 1000
"""The number of waiting groups above which a queue is divided."""
MERGE_BELOW, MERGE_SECONDS = 100, 10.0
"""The number of waiting groups below which, and for how many seconds, a divided queue is divided no more."""
SPLIT_INTERVAL = 1.0
"""Seconds between two counts of the waiting groups."""
EXPLANATIONS = "explanations"
"""The key of the replica that lets explanations expire whose pods were deleted while no replica ran."""

_QUEUE = "queue "
"""Begins the keys of queues."""


class OwnWork:
    """The part of the groups and nodes that this replica works on."""

    def __init__(self, scheduler: Scheduler, division: Division) -> None:
        self._scheduler = scheduler
        self._division = division
        self._parts: dict[str, tuple[str, bool]] = {}
        """For each queue, the part of the work that it belongs to, and whether bounds prevent its division."""
        self._counted_at = 0.0
        self._levels = (0,) * PARTITIONS
        """For each partition of the nodes, how many other replicas prefer it rather than this one."""
        self._moved_at = 0
        """The sequence of the last fact that may have moved any group to another part."""
        self._small_since: dict[str, float] = {}
        """Since when a divided queue has few waiting groups."""

    @property
    def others(self) -> int:
        """The number of other replicas."""
        return len(self._division.others)

    def owns(self, group: GroupRecord) -> bool:
        """Return whether this replica decides and explains a group."""
        return max(self._moved_at, group.moved_at) <= self._division.least_read and self.will_own(group)

    def will_own(self, group: GroupRecord) -> bool:
        """Return whether this replica decides a group as soon as the others have read what moved it."""
        return self._division.owns(self._key(group) if self._division.others else "")

    def answers_for(self, group: GroupRecord, sequence: int) -> bool | None:
        """Return whether this replica reports that an object of a group was deleted; None: ask again when it changes.

        ``sequence`` is that of the fact.
        """
        return self._division.answers_for(self._key(group), sequence)

    def _key(self, group: GroupRecord) -> str:
        """Return the key under which the division knows the owner of a group."""
        part, bounded = self._part(self._scheduler.queue_of_group(group))
        return f"group {group.key}" if not bounded and self._division.is_split(part) else part

    def owns_queue(self, name: str) -> bool:
        """Return whether this replica decides for a queue, or for a part of it."""
        part, bounded = self._part(name)
        return self._division.owns(part) or (not bounded and self._division.is_split(part))

    def owns_node(self, name: str) -> bool:
        """Return whether this replica repairs the ledger of a node."""
        return self._division.owns(f"node {name}")

    def prefer_nodes(self) -> None:
        """Prefer, among equal nodes, those that other replicas do not: each partition has an order of replicas.

        Those who are not the first one there take its nodes in orders of their own.
        """
        levels = tuple(self._division.level(f"partition {number}") for number in range(PARTITIONS))
        if levels != self._levels:
            self._levels = levels
            instance = self._division.instance

            def preference(name: str) -> tuple[int, int]:
                level = levels[partition(name)]
                return level, crc32(f"{instance} {name}".encode()) if level else 0

            self._scheduler.prefer(preference)

    def level(self, node: str) -> int:
        """Return how many other replicas prefer a node rather than this one."""
        return self._levels[partition(node)]

    @property
    def owns_expiry(self) -> bool:
        """Whether this replica bounds EXPLAIN, and lets explanations expire of pods whose end no replica has seen."""
        return self._division.owns(EXPLANATIONS)

    def caught_up(self) -> None:
        """Begin when the others have read what this replica has read at its start: groups may have moved meanwhile."""
        self._move(self._division.position_read)

    def queue_changed(self, before: QueueFact | None, after: QueueFact | None, sequence: int) -> None:
        """Find the parts again: a queue has changed, None if there is none."""
        if _bounds(before) != _bounds(after):
            self._parts.clear()
            self._move(sequence)

    def group_moved(self, group: GroupRecord, sequence: int) -> None:
        """Note that a fact has moved a group to another queue."""
        group.moved_at = max(group.moved_at, sequence)
        self._division.need_read(sequence)

    def _move(self, sequence: int) -> None:
        self._moved_at = max(self._moved_at, sequence)
        self._division.need_read(sequence)

    def split_large(self, now: float) -> None:
        """Divide the large queues that this replica owns, and no more those that are small again."""
        if not self._division.others or now < self._counted_at + SPLIT_INTERVAL:
            return
        self._counted_at, waiting = now, self._scheduler.waiting()
        small: dict[str, float] = {}
        divided = {part.removeprefix(_QUEUE) for part in self._division.divided if part.startswith(_QUEUE)}
        for queue in sorted({*waiting, *divided}):
            part, bounded = self._part(queue)
            if not self._division.owns(part):
                continue
            count = waiting.get(queue, 0)
            if queue not in divided:
                if count > SPLIT_ABOVE and not bounded:
                    self._division.divide(part)
            elif bounded or count * (self.others + 1) < MERGE_BELOW:
                # Of a divided queue this replica counts its own groups.
                small[queue] = self._small_since.get(queue, now)
                if now >= small[queue] + MERGE_SECONDS:
                    self._division.divide(part, divided=False)
        self._small_since = small

    def _part(self, queue: str) -> tuple[str, bool]:
        found = self._parts.get(queue)
        if found is None:
            found = self._parts[queue] = self._find_part(queue)
        return found

    def _find_part(self, queue: str) -> tuple[str, bool]:
        path = self._path(queue)
        queues = self._scheduler.queues
        bounded = {name for name, fact in queues.items() if fact.capability}
        if bounded & {ROOT, *path[1:]}:
            # An ancestor bounds several queues together.
            return ("root" if ROOT in bounded else f"{_QUEUE}{path[-1]}"), True
        reserved = any(fact.guarantee for name, fact in queues.items() if name != queue)
        return f"{_QUEUE}{queue}", queue in bounded or reserved

    def _path(self, queue: str) -> list[str]:
        """Return a queue and its ancestors below the root; a cycle ends it."""
        path = [queue]
        while (fact := self._scheduler.queues.get(path[-1])) is not None and fact.parent not in ("", ROOT, *path):
            path.append(fact.parent)
        return path


def _bounds(queue: QueueFact | None) -> tuple[str, bool, bool]:
    """Return what of a queue decides which queues belong together."""
    return ("", False, False) if queue is None else (queue.parent, bool(queue.capability), bool(queue.guarantee))
