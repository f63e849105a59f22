"""PodDisruptionBudgets: how many of the selected pods may be evicted together, whatever plugins are listed."""

from collections import Counter
from collections.abc import Callable, Iterable

from deviceshare.model import PodDisruptionBudgetFact, PodFact


class Budgets:
    """What budgets allow now; ``pods`` returns all pods, and is called for the namespaces of victims alone.

    ``going``: pods that are to be evicted, which the status of budgets does not count yet.
    """

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudgetFact],
        pods: Callable[[], Iterable[PodFact]],
        going: Iterable[PodFact] = (),
    ) -> None:
        self._pods = pods
        self._going = tuple(going)
        self._by_namespace: dict[str, list[PodDisruptionBudgetFact]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
        self._of_pod: dict[str, tuple[str, ...]] = {}
        """The keys of the budgets that select a pod, by its uid."""
        self._allowed: dict[str, dict[str, int]] = {}
        """How many pods each budget lets go, by namespace and key."""

    def exceeded(self, pods: Iterable[PodFact]) -> str:
        """Return the key of a budget that does not allow the evictions of these pods together, '' for none."""
        if not self._by_namespace:
            return ""
        asked = Counter((pod.namespace, key) for pod in pods for key in self._selecting(pod))
        for pod in self._going:
            asked.update(name for key in self._selecting(pod) if (name := (pod.namespace, key)) in asked)
        return next((key for (where, key), number in sorted(asked.items()) if number > self._in(where)[key]), "")

    def _selecting(self, pod: PodFact) -> tuple[str, ...]:
        keys = self._of_pod.get(pod.uid)
        if keys is None:
            of_namespace = self._by_namespace.get(pod.namespace, ())
            keys = self._of_pod[pod.uid] = tuple(each.key for each in of_namespace if each.selects(pod))
        return keys

    def _in(self, namespace: str) -> dict[str, int]:
        allowed = self._allowed.get(namespace)
        if allowed is None:
            selected, healthy = Counter[str](), Counter[str]()
            for pod in self._pods():
                if pod.namespace == namespace and not pod.ended:
                    keys = self._selecting(pod)
                    selected.update(keys)
                    if pod.node and not pod.terminating:
                        healthy.update(keys)
            allowed = self._allowed[namespace] = {
                each.key: each.disruptions(selected[each.key], healthy[each.key])
                for each in self._by_namespace[namespace]
            }
        return allowed
