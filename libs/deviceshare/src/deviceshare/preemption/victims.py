"""Sets of victims: who goes along, whether they may go together, and which of two sets is better."""

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from deviceshare.model import GroupKey
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidates import Candidate
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.shares import Allows


class Cost(NamedTuple):
    """The cost of victims: fewer pods are better, then a lower sum of their priorities."""

    pods: int = 0
    priorities: int = 0

    def plus(self, other: "Cost") -> "Cost":
        """Return the cost of both."""
        return Cost(self.pods + other.pods, self.priorities + other.priorities)


class Victims:
    """The pods that may go, each alone, and the rules for several of them.

    The rules are monotonic: a pod that may not go with some others may not go with more of them.
    """

    def __init__(
        self, gangs: Mapping[GroupKey, Gang], budgets: Budgets, allows: Allows, candidates: Iterable[Candidate]
    ) -> None:
        self._budgets, self._allows, self._gangs = budgets, allows, gangs
        self.candidates = {each.uid: each for each in candidates}
        for uid in [uid for uid in self.candidates if self.completed(frozenset((uid,))) is None]:
            self.candidates.pop(uid)

    def completed(self, uids: Set[str]) -> frozenset[str] | None:
        """Return who goes if these pods go: gangs that lose their minimum go whole. None if they may not."""
        by_gang: dict[GroupKey, set[str]] = {}
        for uid in uids:
            group = self.candidates[uid].group
            if group in self._gangs:
                by_gang.setdefault(group, set()).add(uid)
        gone = set(uids)
        for group, members in by_gang.items():
            together = self._gangs[group].with_all_that_go(members)
            if together is None:
                return None
            gone.update(together)
        if not gone <= self.candidates.keys() or self._budgets.exceeded(gone):
            return None
        return frozenset(gone) if self._allows([self.candidates[uid] for uid in sorted(gone)]) else None

    def cost(self, uids: Iterable[str]) -> Cost:
        """Return the cost of victims."""
        priorities = [self.candidates[uid].priority for uid in uids]
        return Cost(len(priorities), sum(priorities))

    def binding(self, candidate: Candidate) -> tuple[str, str]:
        """Return what it depends on who goes along with a pod: its gang and task, or nothing."""
        gang = self._gangs.get(candidate.group)
        return (candidate.group, candidate.pod.task) if gang is not None and gang.bound_together else ("", "")
