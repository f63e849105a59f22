"""The bounds of queues, and their deserved amounts under the plugin ``capacity``.

Source: Volcano pkg/scheduler/plugins/capacity (buildQueueAttrs; for hierarchies buildHierarchicalQueueAttrs and
checkHierarchicalQueue). The bounds without hierarchies are the same in the plugin ``proportion``.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from math import inf

from deviceshare.model import QueueFact
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.state import PODS


def set_bounds(accounts: Collection[QueueAccount], most: Mapping[str, int]) -> None:
    """Set the bounds of queues that share ``most``: by capability and the guarantees of the other queues.

    A resource that ``most`` does not name is bounded only by the capability; ``pods`` is never bounded.
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
    """Set the deserved amounts of queues that share ``most``: at most their bound, at least their guarantee."""
    for account in accounts:
        account.deserved = _deserved(account.fact, _smaller(most, account.bound))


def set_in_hierarchy(accounts: Collection[QueueAccount], root: QueueAccount, total: Mapping[str, int]) -> None:
    """Set the bounds and deserved amounts of all queues below the root.

    A root without a capability is unbounded, and then the guarantees of its children bound no queue either. A root
    with a capability has 0 of each resource that the capability does not name. Deserved amounts may exceed the bounds.
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
    """Return a queue's capability. As in Volcano, 0 CPU or memory means unbounded."""
    return {name: most for name, most in fact.capability.items() if most or name not in ("cpu", "memory")}


def _deserved(fact: QueueFact, most: Mapping[str, int]) -> dict[str, float]:
    names = fact.deserved.keys() | fact.guarantee.keys()
    return {
        name: max(min(fact.deserved.get(name, 0), most.get(name, inf)), fact.guarantee.get(name, 0)) for name in names
    }


def _smaller(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: min(amount, other.get(name, amount)) for name, amount in {**other, **one}.items()}
