"""The bounds of queues: by their capability, and by what is guaranteed to other queues.

Source: Volcano pkg/scheduler/plugins/{proportion,capacity}, which have the same bounds without hierarchies.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from deviceshare.families.dra import is_of_class
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


def with_guarantees(accounts: Collection[QueueAccount], total: Mapping[str, int]) -> dict[str, int]:
    """Return what queues share: the cluster's total, and 0 of guaranteed resources that no node has.

    How many devices of a class there are is not counted: what is guaranteed of them bounds no other queue.
    """
    guaranteed = {name for account in accounts for name in account.fact.guarantee if not is_of_class(name)}
    return dict.fromkeys(guaranteed, 0) | dict(total)


def capability(fact: QueueFact) -> dict[str, int]:
    """Return a queue's capability. As in Volcano, 0 CPU or memory means unbounded."""
    return {name: most for name, most in fact.capability.items() if most or name not in ("cpu", "memory")}
