"""The account of one queue: what its pods have and ask, what it deserves and may have."""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.model import QueueFact
from deviceshare.queueing.proportion import NOTHING
from deviceshare.state import PODS


class QueueAccount:
    """The account of one queue. ``requested`` is what its pods have and ask together.

    In a hierarchy of queues ``used`` and ``promised`` are ``allocated`` and ``committed`` of the queue and all queues
    below it.
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
        """What the groups that were let in need at least, and what pods without a PodGroup ask."""
        self.deserved: Mapping[str, float] = {}
        self.bound: dict[str, int] = {}
        """The most that it may have, whatever others ask; beside it the bounds of the queues above it hold."""
        self.guaranteed: frozenset[str] = frozenset()
        """The resources of ``bound`` that are bounded by guarantees of other queues."""
        self.used, self.promised = self.allocated, self.committed
        self.above: tuple[QueueAccount, ...] = ()
        """The queues above it, its parent first."""
        self.totals: tuple[QueueAccount, ...] = ()
        """The queues whose ``used`` and ``promised`` are separate sums, to which changes of this queue are added."""

    @property
    def path(self) -> tuple["QueueAccount", ...]:
        """The queue and all queues above it: a pod counts in each of them."""
        return (self, *self.above)

    @property
    def deserves_nothing(self) -> bool:
        """Whether it deserves no resource but ``pods``."""
        return not any(amount >= NOTHING for name, amount in self.deserved.items() if name != PODS)

    def charge(self, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        """Add what a pod has, or take it back."""
        add(self.allocated, amounts, sign)
        for account in self.totals:
            add(account.used, amounts, sign)

    def commit(self, needs: Mapping[str, int], sign: int) -> None:
        """Add what a group needs at least, or take it back."""
        add(self.committed, needs.items(), sign)
        for account in self.totals:
            add(account.promised, needs.items(), sign)


def link(accounts: Iterable[QueueAccount], above: Mapping[str, tuple[QueueAccount, ...]]) -> None:
    """Set which queues are above which: ``above`` has them for each name, the parent first."""
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
    """Add amounts to others, or with the sign -1 take them away."""
    for name, amount in more:
        amounts[name] += sign * amount
