"""The checker's own count of PodDisruptionBudgets."""

from typing import Any

import pytest
from deviceshare_lab.checker.budgets import broken_by
from deviceshare_lab.clusters.objects import budget

LABELS = {"app": "web"}


def pod(name: str, phase: str = "Running", *, terminating: bool = False, labels: dict[str, str] = LABELS) -> Any:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"metadata": metadata | ({"deletionTimestamp": "now"} if terminating else {}), "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("others", "minimum", "broken"),
    [
        ([pod("b")], 1, False),
        ([pod("b")], 2, True),
        ([pod("b", terminating=True)], 1, True),
        ([pod("b", "Pending")], 1, True),
        ([pod("b", labels={})], 1, True),
        ([pod("b"), pod("c")], 2, False),
    ],
)
def test_what_is_left_after_an_eviction_is_compared_with_the_minimum(
    others: list[Any], minimum: int, broken: bool
) -> None:
    after = [pod("a", terminating=True), *others]
    assert bool(list(broken_by(pod("a"), after, [budget("b", minimum, LABELS)]))) is broken


def test_a_pod_that_does_not_run_breaks_no_budget() -> None:
    assert list(broken_by(pod("a", "Pending"), [], [budget("b", 1, LABELS)])) == []
    assert list(broken_by(pod("a", labels={}), [], [budget("b", 1, LABELS)])) == []
