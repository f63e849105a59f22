"""Gangs as victims: a gang keeps its minimum, or it goes whole.

Beyond Volcano, which as configured by default breaks gangs, and whose plugin ``gang`` never takes a gang whole.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Set

import msgspec


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """The placed pods of a PodGroup: uids, and the task of each.

    ``minimum`` and ``tasks``: how many pods, and pods of each task, it needs. ``joining``: how many pods of each task
    join it at the same time, since it is the gang that others go for. ``goes_whole``: whether all of it may go instead.
    """

    placed: Mapping[str, str]
    minimum: int
    tasks: Mapping[str, int] = {}
    joining: Mapping[str, int] = {}
    goes_whole: bool = True

    @property
    def bound_together(self) -> bool:
        """Whether it matters for one of its pods which others go."""
        return self.minimum > 0 and len(self.placed) > 1

    def with_all_that_go(self, gone: Set[str]) -> Collection[str] | None:
        """Return which of its pods go if these do: these, or all; None if these may not."""
        whole = self.goes_whole and len(gone) == len(self.placed)
        if whole or self._keeps_minimum(gone):
            return gone
        return self.placed.keys() if self.goes_whole else None

    def _keeps_minimum(self, gone: Set[str]) -> bool:
        left = len(self.placed) - len(gone) + sum(self.joining.values())
        if left < self.minimum or not self.tasks:
            return left >= self.minimum
        lost = Counter(self.placed[uid] for uid in gone)
        has = Counter(self.placed.values())
        return all(
            has[task] - number + self.joining.get(task, 0) >= self.tasks.get(task, 0) for task, number in lost.items()
        )
