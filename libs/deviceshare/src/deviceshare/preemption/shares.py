"""What queues and jobs keep: rules about several victims together that follow from amounts.

They hold for every subset of pods for which they hold.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from deviceshare.model import GroupKey, ResourceAmounts
from deviceshare.preemption.candidates import Candidate, Preemptor
from deviceshare.queueing import Queues, add
from deviceshare.state import PODS

Allows = Callable[[Sequence[Candidate]], bool]
"""Returns whether pods may go together."""

_ROUNDING = 1e-6
"""Tolerance of amounts that queues deserve, which are fractions, and of shares. Source: shareDelta of plugins/drf."""


def above_deserved(queues: Queues) -> Allows:
    """Return the rule of reclaim: a queue loses a pod only while it has more than it deserves of what the pod has.

    Neither does it lose what it is guaranteed. Volcano's ``proportion`` also counts what the pod does not have.
    """

    def allows(victims: Sequence[Candidate]) -> bool:
        by_queue: dict[str, list[ResourceAmounts]] = {}
        for victim in victims:
            by_queue.setdefault(victim.queue, []).append(queues.amounts(victim.uid))
        return all(_may_lose(queues, name, amounts) for name, amounts in by_queue.items())

    return allows


def _may_lose(queues: Queues, name: str, amounts: list[ResourceAmounts]) -> bool:
    """Return whether a queue may lose pods with these amounts in some order, one after the other.

    The last one is found first: with the others gone the queue has to have more than it deserves of something that
    this one has. Any that may be the last will do, since the others find more when fewer are gone.
    """
    account = queues.account(name)
    fair, kept, left = account.deserved, account.fact.guarantee, Counter(account.used)
    for each in amounts:
        add(left, each, -1)
    if any(left[resource] < kept.get(resource, 0) for each in amounts for resource, amount in each if amount):
        return False
    waiting = list(amounts)
    while waiting:
        last = next((each for each in waiting if _has_too_much(left, each, fair)), None)
        if last is None:
            return False
        add(left, last, 1)
        waiting.remove(last)
    return True


def _has_too_much(left: Mapping[str, int], amounts: ResourceAmounts, fair: Mapping[str, float]) -> bool:
    """Return whether a queue with a pod has more than is fair of something that the pod has, or none of it counts."""
    counted = _counted(amounts, fair)
    return not counted or any(left[resource] + amount > fair[resource] + _ROUNDING for resource, amount in counted)


def _counted(amounts: Iterable[tuple[str, int]], fair: Mapping[str, float]) -> list[tuple[str, int]]:
    """Return the amounts of resources of which it is said what the queue deserves.

    Source: Volcano pkg/scheduler/plugins/capacity (isImmediateVictim, LessEqualPartlyWithDimensionZeroFiltered).
    """
    return [(resource, amount) for resource, amount in amounts if amount and resource != PODS and resource in fair]


def within_deserved(queues: Queues, preemptor: Preemptor) -> bool:
    """Return whether the queue of a group has no more than it deserves, of all that its pods request, with them.

    In Volcano's ``capacity`` one of the resources is enough, so that a queue with too many cards takes more of them.
    """
    account = queues.account(preemptor.queue)
    asked = _counted(queues.asked(preemptor.pods).items(), account.deserved)
    return bool(asked) and all(
        account.used[resource] + amount <= account.deserved[resource] + _ROUNDING for resource, amount in asked
    )


def larger_share(queues: Queues, preemptor: Preemptor) -> Allows:
    """Return the rule of the plugin ``drf``: a job keeps at least the dominant share that the waiting one gets.

    Source: Volcano pkg/scheduler/plugins/drf (preemptableFn).
    """
    after = Counter(queues.groups.allocated(preemptor.group.key))
    after.update(queues.asked(preemptor.pods))
    wanted = queues.share(after)

    def allows(victims: Sequence[Candidate]) -> bool:
        left: dict[str, Counter[str]] = {}
        for victim in victims:
            if victim.group not in left:
                left[victim.group] = Counter(queues.groups.allocated(victim.group))
            add(left[victim.group], queues.amounts(victim.uid), -1)
        return all(queues.share(amounts) >= wanted - _ROUNDING for amounts in left.values())

    return allows


def within_budgets(budget: Callable[[GroupKey], int]) -> Allows:
    """Return the rule of the plugin ``tdm``: of each job at most so many pods go at a time.

    Source: Volcano pkg/scheduler/plugins/tdm (maxVictims).
    """

    def allows(victims: Sequence[Candidate]) -> bool:
        return all(number <= budget(group) for group, number in Counter(each.group for each in victims).items())

    return allows


def all_of(rules: Iterable[Allows]) -> Allows:
    """Return the rule that all of these allow it."""
    rules = tuple(rules)
    return lambda victims: all(rule(victims) for rule in rules)
