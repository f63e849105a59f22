"""The sets of pods that are tried as victims."""

from itertools import combinations

from deviceshare.preemption.candidates import EvictionCandidate
from deviceshare.preemption.subsets import Subsets
from support.builders import pod


def subsets(number: int) -> tuple[Subsets, list[str]]:
    """Return sets of pods that are all different, and their uids."""
    pods = [pod(f"p{at}", priority=at) for at in range(number)]
    candidates = [EvictionCandidate(pod=each, node="a", queue="default", job_priority=each.priority) for each in pods]
    return Subsets(candidates, lambda candidate: candidate.uid), [each.uid for each in pods]


def test_sets_of_a_size_are_all_combinations():
    sets, uids = subsets(6)
    for size in range(1, 7):
        found = list(sets.of_size(size, lambda _: False, lambda _: False))
        assert sorted(map(sorted, found)) == sorted(map(sorted, combinations(uids, size)))


def test_a_thousand_pods_are_tried_one_by_one():
    sets, uids = subsets(1000)
    assert [*sets.of_size(1, lambda _: False, lambda _: False)] == [frozenset({uid}) for uid in uids]
