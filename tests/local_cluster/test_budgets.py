"""The status of PodDisruptionBudgets, as the disruption controller of Kubernetes computes it.

The cases that name a test have the numbers of that test in Kubernetes pkg/controller/disruption/disruption_test.go.
"""

from typing import Any

import pytest
from deviceshare_localcluster.budgets import PodHealth, Scale, observed, refusal, spent

AT = 1_700_000_000.0
AT_TEXT = "2023-11-14T22:13:20Z"
LABELS = {"app": "web"}


def budget(generation: int = 1, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "u", "generation": generation},
        "spec": {"selector": {"matchLabels": LABELS}, **spec},
    }
    return found | ({"status": status} if status is not None else {})


def pods(number: int, owner: str = "", **fields: Any) -> list[PodHealth]:
    defaults: dict[str, Any] = {"labels": LABELS, "ready": True, "terminating": False}
    return [PodHealth(f"p{at}", owner=owner, **(defaults | fields)) for at in range(number)]


def numbers(status: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return what ``kubectl get -o yaml`` shows: allowed, current, desired and expected pods."""
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    allowed, current, desired, expected = (status[field] for field in fields)
    return allowed, current, desired, expected


@pytest.mark.parametrize(
    ("spec", "number", "scale", "expected"),
    [
        ({"minAvailable": 3}, 0, None, (0, 0, 3, 0)),  # TestNoSelector
        ({"minAvailable": 3}, 1, None, (0, 1, 3, 1)),
        ({"minAvailable": 3}, 3, None, (0, 3, 3, 3)),  # TestUnavailable
        ({"minAvailable": 3}, 4, None, (1, 4, 3, 4)),
        ({"maxUnavailable": 2}, 1, 7, (0, 1, 5, 7)),  # TestIntegerMaxUnavailableWithScaling
        ({"maxUnavailable": 2}, 1, 5, (0, 1, 3, 5)),
        ({"maxUnavailable": "30%"}, 1, 7, (0, 1, 4, 7)),  # TestPercentageMaxUnavailableWithScaling
        ({"maxUnavailable": "30%"}, 1, 3, (0, 1, 2, 3)),
        ({"minAvailable": "20%"}, 1, 10, (0, 1, 2, 10)),  # TestReplicaSet
        ({"minAvailable": "67%"}, 2, 3, (0, 2, 3, 3)),
        ({"minAvailable": "66%"}, 3, 3, (1, 3, 2, 3)),  # rounded up
        ({"maxUnavailable": 1}, 5, 5, (1, 5, 4, 5)),
        ({"maxUnavailable": 5}, 3, 3, (3, 3, 0, 3)),
        ({"minAvailable": "0%"}, 3, None, (0, 3, 0, 0)),  # no controller: nothing is expected
    ],
)
def test_a_status_has_the_numbers_of_kubernetes(
    spec: dict[str, Any], number: int, scale: int | None, expected: tuple[int, int, int, int]
) -> None:
    scales = {} if scale is None else {"rs": Scale("deployment", scale)}
    status, again = observed(budget(**spec), pods(number, "" if scale is None else "rs"), scales, AT)
    assert numbers(status) == expected
    assert again is None
    (condition,) = status["conditions"]
    assert condition["reason"] == ("SufficientPods" if expected[0] else "InsufficientPods")
    assert condition["lastTransitionTime"] == AT_TEXT


def test_two_replicasets_of_a_deployment_count_once() -> None:
    scales = {"new": Scale("deployment", 4), "old": Scale("deployment", 4)}
    both = [*pods(2, "new"), *[pod._replace(name=f"old-{pod.name}") for pod in pods(2, "old")]]
    assert numbers(observed(budget(maxUnavailable=1), both, scales, AT).status) == (1, 4, 3, 4)


def test_pods_that_go_or_are_not_ready_or_are_not_selected_are_not_healthy() -> None:
    assert numbers(observed(budget(minAvailable=1), pods(3, ready=False), {}, AT).status) == (0, 0, 1, 3)
    assert numbers(observed(budget(minAvailable=1), pods(3, terminating=True), {}, AT).status) == (0, 0, 1, 3)
    assert numbers(observed(budget(minAvailable=1), pods(3, labels={"app": "x"}), {}, AT).status) == (0, 0, 1, 0)


def test_pods_of_a_controller_without_a_number_of_pods_allow_nothing() -> None:
    status, _ = observed(budget(maxUnavailable=1), pods(2, "a-job"), {}, AT)
    assert status["disruptionsAllowed"] == 0
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    assert condition["message"] == 'found no controllers for pod "p0"'


def test_an_evicted_pod_counts_as_gone_until_it_is_or_two_minutes_are_over() -> None:
    first = budget(minAvailable=2) | {"status": observed(budget(minAvailable=2), pods(3), {}, AT).status}
    used = spent(first, "p0", AT)
    assert refusal(used) == "The disruption budget b needs 2 healthy pods and has 3 currently"
    (condition,) = used["status"]["conditions"]
    assert condition["reason"] == "InsufficientPods"
    status, again = observed(used, pods(3), {}, AT + 1)
    assert numbers(status) == (0, 2, 2, 3)
    assert status["disruptedPods"] == {"p0": AT_TEXT}
    assert again == AT + 120
    late = observed(used, pods(3), {}, AT + 120).status
    assert numbers(late) == (1, 3, 2, 3)
    assert "disruptedPods" not in late
    going = [pods(1, terminating=True)[0], *pods(3)[1:]]
    gone = observed(used, going, {}, AT + 1).status
    assert numbers(gone) == (0, 2, 2, 3)
    assert "disruptedPods" not in gone


def test_a_changed_budget_allows_nothing_until_its_controller_has_seen_it() -> None:
    status = observed(budget(minAvailable=0), pods(1), {}, AT).status
    assert refusal(budget(status=status)) == ""
    assert refusal(budget(2, status)) == "The disruption budget b is still being processed by the server."
