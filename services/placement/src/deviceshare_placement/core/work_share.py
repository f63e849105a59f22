"""Which part of the work this replica of placement does.

A queue has one owner, so that its bounds hold exactly. Queues under a bounded ancestor have one owner together. A large
queue without bounds is divided further, by its groups. Repairs of a ledger belong to the owner of its node.
"""

from collections.abc import Mapping

from deviceshare.queueing import ROOT
from deviceshare_bus.division import Division

from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.records import GroupRecord

SPLIT_ABOVE = 1000
"""The number of waiting groups above which a queue is divided."""
SPLIT_INTERVAL = 1.0
"""Seconds between two counts of the waiting groups."""


class WorkShare:
    """The part of the groups and nodes that this replica works on."""

    def __init__(self, cluster: ClusterState, division: Division) -> None:
        self._cluster = cluster
        self._division = division
        self._parts: dict[str, tuple[str, bool]] = {}
        """For each queue, the part of the work that it belongs to, and whether bounds prevent its division."""
        self._counted_at = 0.0

    def owns(self, group: GroupRecord) -> bool:
        """Return whether this replica decides and explains a group."""
        if not self._division.others:
            return self._division.owns("")
        part, bounded = self._part(self._queue(group))
        if not bounded and self._division.is_split(part):
            return self._division.owns(f"group {group.key}")
        return self._division.owns(part)

    def owns_node(self, name: str) -> bool:
        """Return whether this replica repairs the ledger of a node."""
        return self._division.owns(f"node {name}")

    def queues_changed(self) -> None:
        """Find the parts again: a queue, or the configuration, has changed."""
        self._parts.clear()

    def split_large(self, waiting: Mapping[str, int], now: float) -> None:
        """Divide the large queues that this replica owns; ``waiting`` counts their groups."""
        if not self._division.others or now < self._counted_at + SPLIT_INTERVAL:
            return
        self._counted_at = now
        for queue, count in waiting.items():
            part, bounded = self._part(queue)
            if count > SPLIT_ABOVE and not bounded and self._division.owns(part):
                self._division.split(part)

    def _queue(self, group: GroupRecord) -> str:
        if group.fact is not None:
            return group.fact.queue
        return self._cluster.pods[min(group.members)].fact.queue if group.members else ""

    def _part(self, queue: str) -> tuple[str, bool]:
        found = self._parts.get(queue)
        if found is None:
            found = self._parts[queue] = self._find_part(queue)
        return found

    def _find_part(self, queue: str) -> tuple[str, bool]:
        path = self._path(queue)
        queues = self._cluster.queues
        bounded = {name for name, fact in queues.items() if fact.capability}
        if bounded & {ROOT, *path[1:]}:
            # An ancestor bounds several queues together.
            return ("root" if ROOT in bounded else f"queue {path[-1]}"), True
        reserved = any(fact.guarantee for name, fact in queues.items() if name != queue)
        return f"queue {queue}", queue in bounded or reserved

    def _path(self, queue: str) -> list[str]:
        """Return a queue and its ancestors below the root; a cycle ends it."""
        path = [queue]
        while (fact := self._cluster.queues.get(path[-1])) is not None and fact.parent not in ("", ROOT, *path):
            path.append(fact.parent)
        return path
