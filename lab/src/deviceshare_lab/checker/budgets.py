"""PodDisruptionBudgets by objects alone: whether a pod could be spared when it was evicted.

As Kubernetes counts (pkg/registry/core/pod/storage/eviction.go): a running pod counts in each budget that selects it.
"""

from collections.abc import Iterable, Iterator

from deviceshare_lab.clusters.fields import Object, name_of


def selects(budget: Object, pod: Object) -> bool:
    """Return whether a budget with ``matchLabels`` counts a pod."""
    wanted: Object = budget["spec"]["selector"]["matchLabels"]
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def is_healthy(pod: Object) -> bool:
    """Return whether a pod counts as available."""
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def broken_by(evicted: Object, pods: Iterable[Object], budgets: Iterable[Object]) -> Iterator[str]:
    """Yield the budgets that did not allow the eviction of a pod.

    ``evicted``: the pod before; ``pods``: all pods after it, without the one that was evicted, or as it is then.
    """
    if not is_healthy(evicted):
        return
    pods = list(pods)
    for budget in budgets:
        if selects(budget, evicted):
            left = sum(is_healthy(pod) and selects(budget, pod) for pod in pods)
            if left < (needed := budget["spec"]["minAvailable"]):
                yield f"{name_of(evicted)} was evicted: {left} of {needed} pods of {name_of(budget)} are left"
