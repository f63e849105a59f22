"""PodDisruptionBudgets: which pods they select, which evictions they allow, and their status. Pure.

Source: Kubernetes pkg/registry/core/pod/storage/eviction.go, pkg/controller/disruption/disruption.go. Difference: a pod
without the condition Ready, as pods have here that start at once, is healthy if it runs.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from deviceshare.model import DisruptionLimit, PodDisruptionBudgetFact, matches_labels
from deviceshare.objects import decode_disruption_budget
from deviceshare_cluster.changes import timestamp
from deviceshare_cluster.eviction import SEVERAL_BUDGETS
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.stages import seconds_at
from deviceshare_localcluster.termination import ENDED, is_terminating

BUDGET = "PodDisruptionBudget"
DELETION_SECONDS = 120.0
"""Seconds after which a pod that was evicted and is not being deleted counts again."""
SEVERAL = f"{SEVERAL_BUDGETS}, which the eviction subresource does not support."
"""The API server's answer to the eviction of a pod that several budgets select."""
_CONDITION = "DisruptionAllowed"


class PodHealth(NamedTuple):
    """What budgets look at in a pod; ``owner``: the uid of its controller, '' without one."""

    name: str
    labels: Mapping[str, str]
    ready: bool
    terminating: bool
    owner: str = ""


class Scale(NamedTuple):
    """The controller of pods by its uid, and how many it keeps running; for pods of a ReplicaSet its Deployment."""

    uid: str
    replicas: int


class BudgetProblem(ValueError):
    """The number of pods that a budget expects cannot be computed."""


def is_ready(pod: Object) -> bool:
    """Return whether a pod is healthy."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return bool(status.get("phase") == "Running")


def needs_no_budget(pod: Object) -> bool:
    """Return whether a pod is evicted whatever budgets say: it has not started, has ended, or is being deleted."""
    return is_terminating(pod) or (pod.get("status") or {}).get("phase", "Pending") in ("Pending", *ENDED)


def selects(fact: PodDisruptionBudgetFact, labels: Mapping[str, str]) -> bool:
    """Return whether a budget selects pods of its namespace with these labels; an invalid one selects none."""
    return not fact.problems and matches_labels(fact.selector, labels)


def spends_nothing(budget: Object, pod: Object) -> bool:
    """Return whether the eviction of a pod that is not ready leaves as many healthy pods as the budget demands."""
    if is_ready(pod):
        return False
    status = budget.get("status") or {}
    always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    desired = status.get("desiredHealthy") or 0
    return always or (desired > 0 and (status.get("currentHealthy") or 0) >= desired)


def refusal(budget: Object) -> str:
    """Return why a budget allows no eviction, in the API server's words; '' if it does."""
    metadata, status = budget["metadata"], budget.get("status") or {}
    name = metadata["name"]
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 1):
        return f"The disruption budget {name} is still being processed by the server."
    if (status.get("disruptionsAllowed") or 0) <= 0:
        desired, current = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return ""


def spent(budget: Object, pod: str, at: float) -> Object:
    """Return a budget after the eviction of a pod that it allows."""
    status = dict(budget["status"])
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: timestamp(at)}
    if not status["disruptionsAllowed"]:
        status["conditions"] = _conditions(status, at)
    return budget | {"status": status}


class Observed(NamedTuple):
    """The status of a budget, and when it has to be computed again though nothing changes (unix seconds)."""

    status: dict[str, Any]
    again: float | None


def observed(budget: Object, pods: Iterable[PodHealth], scales: Mapping[str, Scale], at: float) -> Observed:
    """Return the status of a budget by all pods of its namespace.

    ``scales``: how many pods there should be, by the uid of the controller that pods name.
    """
    before: dict[str, Any] = budget.get("status") or {}
    metadata = budget["metadata"]
    fact = decode_disruption_budget(msgspec.json.encode(budget))
    selected = [pod for pod in pods if selects(fact, pod.labels)]
    try:
        expected, desired = _expected(fact.limit, selected, scales)
    except BudgetProblem as problem:
        failed = before | {"disruptionsAllowed": 0}
        return Observed(failed | {"conditions": _conditions(failed, at, str(problem))}, None)
    disrupted = {
        pod.name: time
        for pod in selected
        if not pod.terminating and (time := (before.get("disruptedPods") or {}).get(pod.name)) is not None
    }
    late = {name: time for name, time in disrupted.items() if seconds_at(time) + DELETION_SECONDS > at}
    healthy = sum(pod.ready and not pod.terminating and pod.name not in late for pod in selected)
    status = before | {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
        "disruptedPods": late,
        "observedGeneration": metadata.get("generation") or 1,
    }
    if not late:
        del status["disruptedPods"]
    status["conditions"] = _conditions(status, at)
    again = min((seconds_at(time) + DELETION_SECONDS for time in late.values()), default=None)
    return Observed(status, again)


def _expected(limit: DisruptionLimit, pods: list[PodHealth], scales: Mapping[str, Scale]) -> tuple[int, int]:
    """Return how many pods there should be, and how many healthy ones. Raises BudgetProblem."""
    if limit.min_available is not None and not limit.percent:
        return len(pods), limit.min_available
    owners: set[Scale] = set()
    for pod in pods:
        if pod.owner:
            if pod.owner not in scales:
                raise BudgetProblem(f'found no controllers for pod "{pod.name}"')
            owners.add(scales[pod.owner])
    expected = sum(owner.replicas for owner in owners)
    return expected, limit.desired(expected)


def _conditions(status: Mapping[str, Any], at: float, failure: str = "") -> list[dict[str, Any]]:
    """Return the conditions of a status with the one that says whether disruptions are allowed."""
    allowed = bool(status["disruptionsAllowed"])
    before: list[dict[str, Any]] = status.get("conditions") or []
    old = next((one for one in before if one.get("type") == _CONDITION), {})
    wanted = {
        "type": _CONDITION,
        "status": "True" if allowed else "False",
        "reason": "SyncFailed" if failure else "SufficientPods" if allowed else "InsufficientPods",
        "message": failure,
        "observedGeneration": status.get("observedGeneration") or 0,
    }
    same = old.get("status") == wanted["status"]
    wanted["lastTransitionTime"] = old["lastTransitionTime"] if same else timestamp(at)
    return [one for one in before if one is not old] + [wanted]
