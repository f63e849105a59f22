"""PodDisruptionBudgets: how many of the selected pods may be evicted together, whatever plugins are listed."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from deviceshare.model import PodDisruptionBudgetFact, PodFact


class _Selected(NamedTuple):
    """A pod as it counts in the budgets that select it; ``going``: it is to be evicted, and not terminating yet."""

    keys: tuple[str, ...]
    healthy: bool
    going: bool


class _Budget:
    """A budget, and the pods that it selects."""

    def __init__(self, fact: PodDisruptionBudgetFact) -> None:
        self.fact = fact
        self.pods: set[str] = set()
        self.healthy = self.going = 0
        self.allowed = self.left = 1
        """How many of them may be evicted now, and how many besides those that are to be evicted."""

    def count(self) -> bool:
        """Count how many are left; return whether there are some now and there were none, or the other way round.

        The status of a budget does not count the pods that are to be evicted.
        """
        self.allowed = self.fact.disruptions(len(self.pods), self.healthy)
        before, self.left = self.left, self.allowed - self.going
        return (before > 0) != (self.left > 0)


class Budgets:
    """The budgets, and the pods that they select, kept between decisions: only what has changed is read again.

    ``pods`` returns all pods; it is called when budgets select others than before.
    """

    def __init__(self, pods: Callable[[], Iterable[PodFact]]) -> None:
        self._all_pods = pods
        self._budgets: dict[str, _Budget] = {}
        self._indexed: dict[tuple[str, ...], dict[str, None]] = {}
        """The budgets by namespace, key and value of one label that they ask for: few are compared with each pod.
        Those that ask for no single value by their namespace."""
        self._pods: dict[str, _Selected] = {}
        """The pods that are selected, by uid."""
        self._selecting: set[str] = set()
        """The namespaces whose budgets select other pods since the last update."""
        self._changed: dict[str, None] = {}
        """The budgets that may allow another number since then."""

    # What changes

    def put(self, facts: Mapping[str, PodDisruptionBudgetFact]) -> None:
        """Make these the budgets; the next :meth:`update` counts them."""
        for key in [key for key in self._budgets if key not in facts]:
            self._drop(key)
        for key, fact in facts.items():
            known = self._budgets.get(key)
            if known is not None and known.fact is fact:
                continue
            if known is not None and known.fact.selector == fact.selector:
                known.fact = fact
            else:
                self._drop(key)
                self._budgets[key] = _Budget(fact)
                self._indexed.setdefault(_index(fact), {})[key] = None
                self._selecting.add(fact.namespace)
            self._changed[key] = None

    def _drop(self, key: str) -> None:
        known = self._budgets.pop(key, None)
        if known is None:
            return
        index = _index(known.fact)
        del self._indexed[index][key]
        if not self._indexed[index]:
            del self._indexed[index]
        for uid in known.pods:
            pod = self._pods[uid]
            self._pods[uid] = pod._replace(keys=tuple(each for each in pod.keys if each != key))
        self._changed.pop(key, None)
        self._selecting.add(known.fact.namespace)

    def forget_pods(self) -> None:
        """Forget all pods: the next :meth:`update` reads all that there are."""
        self._pods.clear()
        self._selecting.clear()
        for key, budget in self._budgets.items():
            budget.pods, budget.healthy, budget.going = set(), 0, 0
            self._changed[key] = None

    def update(self, moved: Iterable[tuple[str, PodFact | None]], going: Container[str]) -> set[str]:
        """Read the pods that have changed; return those that a budget may protect now and did not, or no more.

        Args:
            moved: uid and fact of each pod; None: it is gone.
            going: the pods that are to be evicted.
        """
        others = set[str]()
        if self._selecting:
            for fact in self._all_pods():
                if fact.namespace in self._selecting:
                    self._read(fact.uid, fact, going)
                    others.add(fact.uid)
            self._selecting.clear()
        if self._budgets or self._pods:
            for uid, each in moved:
                self._read(uid, each, going)
        for key in self._changed:
            if self._budgets[key].count():
                others |= self._budgets[key].pods
        self._changed.clear()
        return others

    def _read(self, uid: str, fact: PodFact | None, going: Container[str]) -> None:
        keys = () if fact is None or fact.ended else self._keys(fact)
        after = None
        if fact is not None and keys:
            after = _Selected(keys, bool(fact.node) and not fact.terminating, not fact.terminating and uid in going)
        before = self._pods.pop(uid, None)
        if after is not None:
            self._pods[uid] = after
        if before == after:
            return
        if before is not None:
            self._count(uid, before, -1)
        if after is not None:
            self._count(uid, after, 1)

    def _count(self, uid: str, pod: _Selected, sign: int) -> None:
        for key in pod.keys:
            budget = self._budgets[key]
            (budget.pods.add if sign > 0 else budget.pods.discard)(uid)
            budget.healthy += sign * pod.healthy
            budget.going += sign * pod.going
            self._changed[key] = None

    def _keys(self, pod: PodFact) -> tuple[str, ...]:
        """Return the budgets that select a pod."""
        indexes = ((pod.namespace,), *((pod.namespace, key, value) for key, value in pod.labels))
        compared = (key for index in indexes for key in self._indexed.get(index, ()))
        return tuple(sorted(key for key in compared if self._budgets[key].fact.selects(pod)))

    # What they allow

    def of(self, uid: str) -> str:
        """Return the key of one of the budgets that select a pod, '' if there is none."""
        pod = self._pods.get(uid)
        return "" if pod is None else next(iter(pod.keys), "")

    def left(self) -> Mapping[int, int]:
        """Return by the hash of its key how many more pods each budget allows; of equal hashes the sum."""
        left = Counter[int]()
        for key, budget in self._budgets.items():
            left[hash(key)] += max(0, budget.left)
        return left

    def protecting(self, uid: str) -> str:
        """Return the key of a budget that does not allow one more pod to be evicted, this one; '' for none."""
        pod = self._pods.get(uid)
        return next((key for key in pod.keys if self._budgets[key].left <= 0), "") if pod is not None else ""

    def why_protected(self, uid: str) -> str:
        """Return the budget that does not allow a pod to be evicted now, in the words of ``drain``; '' for none.

        It says how many it allows while all its pods are healthy. A pod that is to be evicted is one of those that it
        allows.
        """
        pod = self._pods.get(uid)
        for key in () if pod is None else pod.keys:
            budget = self._budgets[key]
            if (budget.allowed if pod is not None and pod.going else budget.left) <= 0:
                most = budget.fact.limit.allowed(len(budget.pods), len(budget.pods))
                return f"PodDisruptionBudget {key}: 0 of {most} allowed"
        return ""

    def allow(self, uids: Iterable[str]) -> bool:
        """Return whether these pods may be evicted together."""
        asked: dict[str, int] = {}
        for uid in uids if self._pods else ():
            pod = self._pods.get(uid)
            for key in () if pod is None else pod.keys:
                number = asked[key] = asked.get(key, 0) + 1
                if number > self._budgets[key].left:
                    return False
        return True


def _index(fact: PodDisruptionBudgetFact) -> tuple[str, ...]:
    for each in fact.selector or ():
        if each.operator == "In" and len(each.values) == 1:
            return fact.namespace, each.key, each.values[0]
    return (fact.namespace,)
