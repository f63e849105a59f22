"""What queues may have, and what they deserve by the plugin ``capacity``, as their objects say. Pure arithmetic.

Source: Volcano pkg/scheduler/plugins/capacity (buildQueueAttrs; for hierarchies buildHierarchicalQueueAttrs and
checkHierarchicalQueue) and, for the bounds without hierarchies, proportion, where they are the same.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from math import inf

from deviceshare.model import QueueFact
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.state import PODS


def set_bounds(accounts: Collection[QueueAccount], most: Mapping[str, int]) -> None:
    """Set the bounds of queues that have ``most`` together: their capability and what others are not guaranteed.

    A resource that ``most`` does not name has no bound but a capability. Pods have none at all.
    """
    guarantees: Counter[str] = Counter()
    for account in accounts:
        guarantees.update(account.fact.guarantee)
    for account in accounts:
        guarantee = account.fact.guarantee
        left = {
            name: max(0, most[name] - amount) + guarantee.get(name, 0)
            for name, amount in guarantees.items()
            if name in most and amount > guarantee.get(name, 0)
        }
        account.bound = capability(account.fact)
        account.guaranteed = frozenset(
            name for name, amount in left.items() if amount < account.bound.get(name, amount + 1)
        )
        account.bound |= {name: left[name] for name in account.guaranteed}
        account.bound.pop(PODS, None)


def set_deserved(accounts: Iterable[QueueAccount], most: Mapping[str, int]) -> None:
    """Set what queues deserve that have ``most`` together: no more than they may have, no less than guaranteed."""
    for account in accounts:
        account.deserved = _deserved(account.fact, _smaller(most, account.bound))


def set_in_hierarchy(accounts: Collection[QueueAccount], root: QueueAccount, total: Mapping[str, int]) -> None:
    """Set the bounds of all queues that are below a root, and what they deserve.

    A root without a capability has no bound, and then nothing is kept back for what its children are guaranteed either.
    Where it has one, it has 0 of each resource that this does not name. What a queue deserves is not bounded by what it
    may have.
    """
    children: defaultdict[str, list[QueueAccount]] = defaultdict(list)
    for account in accounts:
        if account.above:
            children[account.above[0].fact.name].append(account)
    named = capability(root.fact)
    root.bound = (
        {name: named.get(name, 0) for name in named.keys() | total.keys() if name != PODS}
        if any(named.values())
        else {}
    )
    todo: list[tuple[QueueAccount, Mapping[str, int]]] = [(root, root.bound)]
    while todo:
        parent, most = todo.pop()
        below = children[parent.fact.name]
        set_bounds(below, most)
        for account in below:
            account.deserved = _deserved(account.fact, {})
            todo.append((account, _smaller(most, account.bound)))


def capability(fact: QueueFact) -> dict[str, int]:
    """Return a queue's capability. As in Volcano 0 of CPU or memory means no bound."""
    return {name: most for name, most in fact.capability.items() if most or name not in ("cpu", "memory")}


def _deserved(fact: QueueFact, most: Mapping[str, int]) -> dict[str, float]:
    names = fact.deserved.keys() | fact.guarantee.keys()
    return {
        name: max(min(fact.deserved.get(name, 0), most.get(name, inf)), fact.guarantee.get(name, 0)) for name in names
    }


def _smaller(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: min(amount, other.get(name, amount)) for name, amount in {**other, **one}.items()}
