"""PodDisruptionBudgets of the simulated cluster: their controller, and what they allow the API server to evict.

As much of Kubernetes pkg/controller/disruption as budgets with numbers and ``matchLabels`` need: no percentages, all
selected pods are expected, and the controller is never late.
"""

from collections.abc import Iterator

from deviceshare_cluster.interface import Object

from deviceshare_lab.world.apiserver import ApiServer, NotAllowed, Seen, key_of

BUDGET = "PodDisruptionBudget"


class SimulatedBudgets:
    """Keeps the status of all budgets."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        server.observers.append(self._seen)
        server.evictable = self.check

    def _seen(self, seen: Seen) -> None:
        if seen.kind == BUDGET and seen.after is not None:
            self._count(seen.after)
        elif seen.kind == "Pod":
            for budget in list(self._server.objects(BUDGET)):
                if any(_selects(budget, each) for each in (seen.before, seen.after) if each):
                    self._count(budget)

    def _count(self, budget: Object) -> None:
        """Write the status of a budget, if it changes."""
        spec = budget.get("spec") or {}
        pods = [pod for pod in self._server.objects("Pod") if _selects(budget, pod)]
        healthy = sum(map(_is_healthy, pods))
        desired = spec["minAvailable"] if "minAvailable" in spec else len(pods) - spec.get("maxUnavailable", len(pods))
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": max(0, desired),
            "expectedPods": len(pods),
            "disruptionsAllowed": max(0, healthy - max(0, desired)) if pods else 0,
            "observedGeneration": 1,
        }

        def change(found: Object) -> bool:
            if found.get("status") == status:
                return False
            found["status"] = status
            return True

        self._server.update(key_of(budget), change, "disruption-controller")

    def check(self, pod: Object) -> None:
        """Raise NotAllowed if budgets do not allow that a pod is evicted."""
        if not _is_healthy(pod):
            return
        budgets = list(self._of(pod))
        if len(budgets) > 1:
            raise NotAllowed(500, "This pod has more than one PodDisruptionBudget", "DisruptionBudget")
        for budget in budgets:
            status = budget["status"]
            if status["disruptionsAllowed"] <= 0:
                name, needs, has = budget["metadata"]["name"], status["desiredHealthy"], status["currentHealthy"]
                message = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
                raise NotAllowed(429, message, "DisruptionBudget")

    def _of(self, pod: Object) -> Iterator[Object]:
        return (budget for budget in self._server.objects(BUDGET) if _selects(budget, pod))


def _selects(budget: Object, pod: Object) -> bool:
    wanted = ((budget.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    labels = pod["metadata"].get("labels") or {}
    same = budget["metadata"].get("namespace", "") == pod["metadata"].get("namespace", "")
    return same and wanted.items() <= labels.items()


def _is_healthy(pod: Object) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
