"""The sets of pods of one place to try, smaller ones first. Pods that are alike are not tried in each other's place."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from deviceshare.preemption.candidates import EvictionCandidate

Prune = Callable[[frozenset[str]], bool]
"""Returns something that is true or false of a set of pods."""


class Subsets:
    """The pods of one place, those that are alike together.

    ``pods``: those first that go first; ``key``: pods with equal keys are alike.
    """

    def __init__(self, pods: Iterable[EvictionCandidate], key: Callable[[EvictionCandidate], Hashable]) -> None:
        alike: dict[Hashable, list[EvictionCandidate]] = {}
        for each in pods:
            alike.setdefault(key(each), []).append(each)
        self._classes: Sequence[Sequence[str]] = [[each.uid for each in members] for members in alike.values()]
        self.all = frozenset(uid for members in self._classes for uid in members)
        self._left = [*accumulate((len(members) for members in reversed(self._classes)), initial=0)][::-1]
        """How many pods there are from each class on."""
        self._from = cache(self._from_class)

    def _from_class(self, at: int) -> frozenset[str]:
        return frozenset(uid for members in self._classes[at:] for uid in members)

    def needed(self, enough: Prune) -> frozenset[str]:
        """Return the pods of which none may stay, even if all others go; all of them if that is not ``enough``."""
        return frozenset(uid for members in self._classes if not enough(self.all - {members[0]}) for uid in members)

    def of_size(
        self, size: int, prune: Prune, useless: Prune, needed: frozenset[str] = frozenset()
    ) -> Iterator[frozenset[str]]:
        """Yield the sets of this size with all ``needed`` pods, of low priorities first.

        Leaves out those with a subset that ``prune`` rejects, and those within a set that is ``useless``: enough for
        nothing even if all of it goes.
        """
        if len(needed) > size or (needed and prune(needed)):
            return iter(())
        return self._extend(needed, 0, size - len(needed), prune, useless)

    def _extend(
        self, chosen: frozenset[str], at: int, left: int, prune: Prune, useless: Prune
    ) -> Iterator[frozenset[str]]:
        if not left:
            yield chosen
            return
        # A recursion for each class without a chosen pod would be as deep as there are classes.
        while at < len(self._classes) and self._left[at] >= left:
            members = self._classes[at]
            if members[0] not in chosen:
                if left > 1 and useless(chosen | self._from(at)):
                    return
                for number in range(min(left, len(members)), 0, -1):
                    more = chosen.union(members[:number])
                    if not prune(more):
                        yield from self._extend(more, at + 1, left - number, prune, useless)
            at += 1
