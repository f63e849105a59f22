"""All pods on nodes that may be candidates, kept between decisions: a decision looks at the few that matter."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from deviceshare.allocation import Allocator
from deviceshare.preemption.candidates import EvictionCandidate, Preemptor
from deviceshare.state import Bools, Ints

_FEWEST_SLOTS = 64


Level = tuple[str, int]
"""The queue of a pod, and the priority of its job."""


class CandidateTable:
    """The candidates in slots of arrays, and the pods that are terminating.

    ``leaving``: the node of each of these, by uid. Whether some pod may go is known from :meth:`note` alone, which is
    much faster than :meth:`put`: the caller need not put a candidate that has changed before it is asked for. A
    candidate that may not go for any group has no level.
    """

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.removals = allocator.removals()
        """What each candidate holds."""
        self._slots: dict[str, int] = {}
        self._unused: list[int] = []
        self._candidates: list[EvictionCandidate | None] = []
        self.priority, self._job_priority, self._queue, self._group = (np.zeros(0, dtype=np.int64) for _ in range(4))
        """int64[slots] each; queue and group by the hash of their name: equal hashes are looked at again."""
        self.budget: Ints = np.zeros(0, dtype=np.int64)
        """int64[slots]: a PodDisruptionBudget that selects the pod, by the hash of its key; 0 if there is none."""
        self._may_go: Bools = np.zeros(0, dtype=np.bool_)
        self._noted: dict[str, Level] = {}
        """The level of each candidate that may go."""
        self._levels: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """For each queue the priorities of the jobs of its candidates that may go, with their number."""
        self.leaving: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self._slots)

    def __iter__(self) -> Iterator[EvictionCandidate]:
        return (candidate for candidate in self._candidates if candidate is not None)

    def get(self, uid: str) -> EvictionCandidate | None:
        """Return a candidate by its uid, None if there is none."""
        slot = self._slots.get(uid)
        return None if slot is None else self._candidates[slot]

    def at(self, slots: Ints) -> list[EvictionCandidate]:
        """Return the candidates in these slots."""
        found = (self._candidates[slot] for slot in slots.tolist())
        return [candidate for candidate in found if candidate is not None]

    def note(self, uid: str, level: Level | None) -> None:
        """Note queue and priority of a candidate that may go, None for any other pod."""
        before = self._noted.get(uid)
        if before == level:
            return
        if (slot := self._slots.get(uid)) is not None:
            self._may_go[slot] = level is not None
        if before is not None:
            del self._noted[uid]
            queue, priority = before
            levels = self._levels[queue]
            levels[priority] -= 1
            if not levels[priority]:
                del levels[priority]
            if not levels:
                del self._levels[queue]
        if level is not None:
            self._noted[uid] = level
            self._levels[level[0]][level[1]] += 1

    def noted(self, uid: str) -> Level | None:
        """Return what is noted of a pod."""
        return self._noted.get(uid)

    def put(self, candidate: EvictionCandidate, budget: str = "") -> None:
        """Add or update a candidate that is noted; ``budget``: see :meth:`set_budget`."""
        pod = candidate.pod
        self._clear(pod.uid)
        slot = self._unused.pop() if self._unused else self._add()
        self._slots[pod.uid], self._candidates[slot] = slot, candidate
        self.priority[slot], self._job_priority[slot] = pod.priority, candidate.job_priority
        self._queue[slot], self._group[slot] = hash(candidate.queue), hash(pod.group)
        self.budget[slot] = hash(budget) if budget else 0
        self._may_go[slot] = pod.uid in self._noted
        holding = self.allocator.holding(candidate.node, pod.uid)
        if holding is not None:
            self.removals.put(slot, candidate.node, holding)

    def set_budget(self, uid: str, budget: str) -> None:
        """Set the key of one of the PodDisruptionBudgets that select a candidate, if it was put; '' for none."""
        if (slot := self._slots.get(uid)) is not None:
            self.budget[slot] = hash(budget) if budget else 0

    def drop(self, uid: str) -> None:
        """Remove a pod, if present."""
        self.leaving.pop(uid, None)
        self.note(uid, None)
        self._clear(uid)

    def _clear(self, uid: str) -> None:
        slot = self._slots.pop(uid, None)
        if slot is None:
            return
        self.removals.drop(slot)
        self._may_go[slot] = False
        self._candidates[slot] = None
        self._unused.append(slot)

    def _add(self) -> int:
        slot = len(self._candidates)
        self._candidates.append(None)
        if slot == self.removals.slots:
            more = max(slot // 2, _FEWEST_SLOTS)
            self.removals.reserve(more)
            self.priority, self._job_priority, self._queue, self._group = (
                np.pad(values, (0, more)) for values in (self.priority, self._job_priority, self._queue, self._group)
            )
            self.budget, self._may_go = np.pad(self.budget, (0, more)), np.pad(self._may_go, (0, more))
        return slot

    # Who may go

    def has_any(self, preemptor: Preemptor, *, preempts: bool, by_priority: bool) -> bool:
        """Return whether :meth:`able` may find some, without looking at the pods."""
        if not preempts:
            return any(queue != preemptor.queue for queue in self._levels)
        levels = self._levels.get(preemptor.queue, ())
        return any(level < preemptor.priority for level in levels) or (
            bool(levels) and (preemptor.group.placed > 0 or not by_priority)
        )

    def concerned(self, preemptor: Preemptor, *, preempts: bool, by_priority: bool) -> Bools:
        """Return bool[slots]: all pods of the right queue and priority, and perhaps some more, also if none may go.

        ``preempts``: those of the queue of the group, else those of the others; ``by_priority``: only lower ones.
        """
        of_queue = self._queue == hash(preemptor.queue)
        found: Bools = of_queue if preempts else ~of_queue
        found[len(self._candidates) :] = False
        if preempts and by_priority:
            own = self._group == hash(preemptor.group.key)
            lowest = min(pod.priority for pod in preemptor.pods)
            found &= (self._job_priority < preemptor.priority) | (own & (self.priority < lowest))
        return found

    def able(self, preemptor: Preemptor, *, preempts: bool, by_priority: bool) -> Bools:
        """Return those of :meth:`concerned` that may go."""
        return self.concerned(preemptor, preempts=preempts, by_priority=by_priority) & self._may_go
