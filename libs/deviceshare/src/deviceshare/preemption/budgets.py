"""PodDisruptionBudgets: how many of the selected pods may be evicted together, whatever plugins are listed."""

from collections import Counter
from collections.abc import Iterable

from deviceshare.model import PodDisruptionBudgetFact, PodFact


class Budgets:
    """What budgets allow now."""

    def __init__(self, budgets: Iterable[PodDisruptionBudgetFact], pods: Iterable[PodFact]) -> None:
        self._of_pod: dict[str, tuple[str, ...]] = {}
        """The keys of the budgets that select a pod, by its uid."""
        self._allowed: dict[str, int] = {}
        by_namespace: dict[str, list[PodDisruptionBudgetFact]] = {}
        for budget in budgets:
            by_namespace.setdefault(budget.namespace, []).append(budget)
        if not by_namespace:
            return
        selected: Counter[str] = Counter()
        healthy: Counter[str] = Counter()
        for pod in pods:
            if pod.ended:
                continue
            keys = tuple(each.key for each in by_namespace.get(pod.namespace, ()) if each.selects(pod))
            if keys:
                self._of_pod[pod.uid] = keys
                selected.update(keys)
                if pod.node and not pod.terminating:
                    healthy.update(keys)
        for of_namespace in by_namespace.values():
            for budget in of_namespace:
                self._allowed[budget.key] = budget.disruptions(selected[budget.key], healthy[budget.key])

    def exceeded(self, uids: Iterable[str]) -> str:
        """Return the key of a budget that does not allow the evictions of these pods together, '' for none."""
        if not self._of_pod:
            return ""
        asked = Counter(key for uid in uids for key in self._of_pod.get(uid, ()))
        return next((key for key, number in sorted(asked.items()) if number > self._allowed[key]), "")
