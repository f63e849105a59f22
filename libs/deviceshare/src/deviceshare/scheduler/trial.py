"""Trying decisions on the state of the cluster, which is the same afterwards unless the trial is committed.

As KAI's Statement (NVIDIA/KAI-Scheduler pkg/scheduler/framework/statement.go), but nested trials may be committed and
undone by the outer one.
"""

from typing import NamedTuple, Self

from msgspec.structs import replace

from deviceshare.allocation import Placement
from deviceshare.model import GroupKey, PodFact
from deviceshare.queueing import DESERVED, Decision, Group, Reason, Shortage, decide
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.explaining import Obstacle
from deviceshare.scheduler.readiness import readiness
from deviceshare.state import Trial


class TriedGroup(NamedTuple):
    """The places of the pods of a group, and why the others have none: obstacles, or the decision that refused them.

    ``borrows``: its queue would exceed what it deserves.
    """

    placed: tuple[tuple[PodFact, Placement], ...] = ()
    borrows: bool = False
    obstacles: tuple[tuple[PodFact, Obstacle], ...] = ()
    refused: Decision | None = None


class SchedulerTrial(Trial):
    """What pods hold on nodes and of their queues, within ``with``: what is not committed is undone at its end."""

    def __init__(self, cluster: ClusterState) -> None:
        super().__init__(cluster.allocator.undo_log, cluster.accounts.undo_log)
        self._cluster = cluster

    def __enter__(self) -> Self:
        if self._cluster.accounts.undo_log.entries is None:
            # What queues deserve is that of the state before.
            self._cluster.accounts.refresh()
        return super().__enter__()

    def remove(self, uid: str) -> None:
        """Take from a pod all that it holds."""
        for node in self._cluster.allocator.nodes_holding(uid):
            self._cluster.allocator.release(node, uid)
        self._cluster.accounts.release(uid)

    def place(self, uid: str, *, borrowing: bool = False) -> Placement | Reason:
        """Place a pod as if it were created now, or return why it has no place; ``borrowing``: see :func:`decide`.

        Where it was removed from does not matter. The rest of its gang does not either.
        """
        fact = self._cluster.pods[uid].fact
        fact, _pod_class = self._cluster.classify(replace(fact, node=""))  # keeps the class as long as it is used
        group = Group(key=GroupKey(f"pod/{uid}"), pods=(fact,))
        decision = decide(self._cluster.allocator, group, self._cluster.accounts, borrowing=borrowing)
        if not decision.placed:
            return decision.waiting[0][1]
        ((_, placement),) = decision.placed
        return placement

    def place_group(self, key: GroupKey, now: float, *, reasons: bool = True) -> TriedGroup:
        """Place the waiting pods of a group, its minimum first; its queue may exceed what it deserves if it must.

        ``now`` is monotonic; ``reasons``: whether to diagnose why no node fits. Pauses after refusals do not matter.
        """
        cluster, record = self._cluster, self._cluster.groups[key]
        if cluster.accounts.unready:
            unready = Obstacle(cluster.accounts.unready)
            return TriedGroup(obstacles=tuple((cluster.pods[uid].fact, unready) for uid in sorted(record.members)))
        ready = readiness(cluster, record, {}, now)
        obstacles = tuple(ready.obstacles)
        if ready.job is None:
            return TriedGroup(obstacles=obstacles)
        group, borrows = ready.job.group, False
        placed: list[tuple[PodFact, Placement]] = []
        while group.pods:
            decision = decide(cluster.allocator, group, cluster.accounts, borrowing=borrows, reasons=reasons)
            if not decision.placed and not borrows and self._may_borrow(decision):
                borrows = True
                continue
            if not decision.placed:
                return TriedGroup(tuple(placed), borrows, obstacles, decision)
            placed += decision.placed
            group = group.without([pod for pod, _ in decision.placed])
        return TriedGroup(tuple(placed), borrows, obstacles)

    def _may_borrow(self, decision: Decision) -> bool:
        """Return whether only the deserved amount of the queue is in the way, which queues may exceed."""
        lacking = [reason for _, reason in decision.waiting if reason is not None]
        of_queue = [reason for reason in lacking if isinstance(reason, Shortage) and reason.bound == DESERVED]
        return bool(of_queue) and self._cluster.allocator.conf.extensions.borrowing
