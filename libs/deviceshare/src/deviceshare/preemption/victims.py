"""Sets of victims: who goes along, whether they may go together, and which of two sets is better."""

from collections.abc import Callable, Iterable, Set
from functools import cache
from typing import NamedTuple

from deviceshare.model import GroupKey
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidates import EvictionCandidate
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.shares import Allows

_POD = 1 << 60
"""More than any sum of priorities."""


class Cost(NamedTuple):
    """The cost of victims: fewer pods are better, then a lower sum of their priorities."""

    pods: int = 0
    priorities: int = 0

    @property
    def weight(self) -> int:
        """The cost as one number: weights of sets without common pods add up."""
        return self.pods * _POD + self.priorities


class Victims:
    """Which of the candidates go together; ``candidate`` returns one that may go by its uid, None if it may not.

    The rules are monotonic: a pod that may not go with some others may not go with more of them.
    """

    def __init__(
        self,
        candidate: Callable[[str], EvictionCandidate | None],
        gang: Callable[[GroupKey], Gang | None],
        budgets: Budgets,
        allows: Allows,
    ) -> None:
        self._candidate, self._gang = cache(candidate), cache(gang)
        self._budgets, self._allows = budgets, allows

    def of(self, uids: Iterable[str]) -> list[EvictionCandidate]:
        """Return candidates by their uid."""
        return [candidate for uid in uids if (candidate := self._candidate(uid)) is not None]

    def completed(self, uids: Set[str]) -> frozenset[str] | None:
        """Return who goes if these pods go: gangs that lose their minimum go whole. None if they may not."""
        by_gang: dict[GroupKey, set[str]] = {}
        for candidate in self.of(uids):
            by_gang.setdefault(candidate.group, set()).add(candidate.uid)
        gone = set(uids)
        for group, members in by_gang.items():
            gang = self._gang(group)
            together = members if gang is None else gang.with_all_that_go(members)
            if together is None:
                return None
            gone.update(together)
        candidates = self.of(sorted(gone))
        if len(candidates) < len(gone) or not self._budgets.allow(gone):
            return None
        return frozenset(gone) if self._allows(candidates) else None

    def cost(self, uids: Iterable[str]) -> Cost:
        """Return the cost of victims."""
        priorities = [each.priority for each in self.of(uids)]
        return Cost(len(priorities), sum(priorities))

    def binding(self, candidate: EvictionCandidate) -> tuple[str, str]:
        """Return what it depends on who goes along with a pod: its gang and task, or nothing."""
        gang = self._gang(candidate.group)
        return (candidate.group, candidate.pod.task) if gang is not None and gang.bound_together else ("", "")
