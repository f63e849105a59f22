"""The account of one queue: requested and allocated resources, deserved amount, and bounds."""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.model import QueueFact
from deviceshare.queueing.proportion import NOTHING
from deviceshare.state import PODS


class QueueAccount:
    """The account of one queue. ``requested``: the total requests of its placed and waiting pods.

    ``used`` and ``promised`` are the sums of ``allocated`` and ``committed`` over the queue and its descendants.
    """

    __slots__ = (
        "above", "allocated", "bound", "committed", "deserved", "fact", "guaranteed", "pods", "promised", "requested",
        "totals", "used",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.fact = QueueFact(name=name)
        self.pods = 0
        self.allocated: Counter[str] = Counter()
        self.requested: Counter[str] = Counter()
        self.committed: Counter[str] = Counter()
        """Minimum resources of admitted groups, and of placed pods without a PodGroup."""
        self.deserved: Mapping[str, float] = {}
        self.bound: dict[str, int] = {}
        """Upper bound by resource; the bounds of its ancestors apply as well."""
        self.guaranteed: frozenset[str] = frozenset()
        """The resources whose ``bound`` results from guarantees of other queues."""
        self.used, self.promised = self.allocated, self.committed
        self.above: tuple[QueueAccount, ...] = ()
        """Its ancestors, parent first."""
        self.totals: tuple[QueueAccount, ...] = ()
        """The accounts with separate ``used`` and ``promised`` sums that a change of this queue must update."""

    @property
    def path(self) -> tuple["QueueAccount", ...]:
        """The queue and its ancestors: a pod counts in each of them."""
        return (self, *self.above)

    @property
    def deserves_nothing(self) -> bool:
        """Whether it deserves no resource, ignoring ``pods``."""
        return not any(amount >= NOTHING for name, amount in self.deserved.items() if name != PODS)

    def charge(self, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        """Add the resources of a placed pod, or subtract them (sign -1)."""
        add(self.allocated, amounts, sign)
        for account in self.totals:
            add(account.used, amounts, sign)

    def commit(self, needs: Mapping[str, int], sign: int) -> None:
        """Add the minimum resources of an admitted group, or subtract them (sign -1)."""
        add(self.committed, needs.items(), sign)
        for account in self.totals:
            add(account.promised, needs.items(), sign)


def link(accounts: Iterable[QueueAccount], above: Mapping[str, tuple[QueueAccount, ...]]) -> None:
    """Set the ancestors of queues (``above``: by name, parent first) and recompute the sums of parents."""
    accounts = list(accounts)
    parents = {found[0].fact.name for found in above.values() if found}
    for account in accounts:
        account.above = above.get(account.fact.name, ())
        inner = account.fact.name in parents
        account.totals = account.path if inner else account.above
        account.used = Counter() if inner else account.allocated
        account.promised = Counter() if inner else account.committed
    for account in accounts:
        for each in account.totals:
            each.used.update(account.allocated)
            each.promised.update(account.committed)


def add(amounts: Counter[str], more: Iterable[tuple[str, int]], sign: int) -> None:
    """Add amounts in place, or subtract them (sign -1)."""
    for name, amount in more:
        amounts[name] += sign * amount
