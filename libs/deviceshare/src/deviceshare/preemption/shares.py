"""What queues and jobs keep: rules about several victims together that follow from amounts.

They hold for every subset of pods for which they hold.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest

from deviceshare.model import GroupKey, ResourceAmounts
from deviceshare.preemption.candidates import EvictionCandidate, Preemptor
from deviceshare.queueing import ROOT, QueueAccount, Queues, add
from deviceshare.state import PODS, Trial

Allows = Callable[[Sequence[EvictionCandidate]], bool]
"""Returns whether pods may go together."""

_ROUNDING = 1e-6
"""Tolerance of amounts that queues deserve, which are fractions, and of shares. Source: shareDelta of plugins/drf."""


def above_deserved(queues: Queues, preemptor: Preemptor, ancestors: int) -> Allows:
    """Return the rule of reclaim: a queue loses a pod only while it has more than it deserves of what the pod has.

    Neither does it lose what it is guaranteed. In a hierarchy the same holds of so many of its ``ancestors``, except
    the root and those that the waiting group is below as well, at the same distance. Volcano's ``proportion`` also
    counts what the pod does not have.

    Source: Volcano pkg/scheduler/plugins/capacity (getReclaimeeAncestorToCheck).
    """
    taker = queues.account(preemptor.queue)
    shared = {each.fact.name for each in taker.above[:ancestors]} - {ROOT}
    asked = _counted(queues.asked(preemptor.pods).items(), taker.deserved)

    def checked(name: str) -> list[QueueAccount]:
        account = queues.account(name)
        above = zip_longest(account.above[:ancestors], taker.above[:ancestors])
        return [
            account,
            *(each for each, of_taker in above if each and each.fact.name != ROOT and each is not of_taker),
        ]

    def allows(victims: Sequence[EvictionCandidate]) -> bool:
        by_queue = {name: checked(name) for name in {victim.queue for victim in victims}}
        if shared and not asked:
            # Between queues below one parent that says nothing of what they deserve there is nothing to take back.
            for victim in victims:
                own = by_queue[victim.queue][0]
                below = {each.fact.name for each in own.above[:ancestors]} & shared
                if below and not _counted(queues.amounts(victim.uid), own.deserved):
                    return False
        return _may_lose([(by_queue[victim.queue], queues.amounts(victim.uid)) for victim in victims])

    return allows


def _may_lose(victims: Sequence[tuple[Sequence[QueueAccount], ResourceAmounts]]) -> bool:
    """Return whether queues may lose pods with these amounts in some order, one after the other.

    Each victim with the accounts that have to have too much, its queue first. The last victim is found first: with the
    others gone the queue has to have more than it deserves of something that this one has. Any that may be the last
    will do, since the others find more when fewer are gone.
    """
    left: dict[str, Counter[str]] = {}
    for accounts, amounts in victims:
        for account in accounts:
            name = account.fact.name
            if name not in left:
                left[name] = Counter(account.used)
            add(left[name], amounts, -1)
    for (own, *_), amounts in victims:
        kept = own.fact.guarantee
        if any(left[own.fact.name][resource] < kept.get(resource, 0) for resource, amount in amounts if amount):
            return False
    waiting = list(victims)
    while waiting:
        last = next((each for each in waiting if _have_too_much(left, *each)), None)
        if last is None:
            return False
        for account in last[0]:
            add(left[account.fact.name], last[1], 1)
        waiting.remove(last)
    return True


def _have_too_much(
    left: Mapping[str, Mapping[str, int]], accounts: Iterable[QueueAccount], amounts: ResourceAmounts
) -> bool:
    return all(_has_too_much(left[account.fact.name], amounts, account.deserved) for account in accounts)


def _has_too_much(left: Mapping[str, int], amounts: ResourceAmounts, fair: Mapping[str, float]) -> bool:
    """Return whether a queue with a pod has more than is fair of something that the pod has, or none of it counts."""
    counted = _counted(amounts, fair)
    return not counted or any(left[resource] + amount > fair[resource] + _ROUNDING for resource, amount in counted)


def _counted(amounts: Iterable[tuple[str, int]], fair: Mapping[str, float]) -> list[tuple[str, int]]:
    """Return the amounts of resources of which it is said what the queue deserves.

    Source: Volcano pkg/scheduler/plugins/capacity (isImmediateVictim, LessEqualPartlyWithDimensionZeroFiltered).
    """
    return [(resource, amount) for resource, amount in amounts if amount and resource != PODS and resource in fair]


def within_deserved(queues: Queues, preemptor: Preemptor, ancestors: int) -> bool:
    """Return whether the queue of a group has no more than it deserves, of all that its pods request, with them.

    Or one of so many of its ``ancestors``, except the root. In Volcano's ``capacity`` one of the resources is enough,
    so that a queue with too many cards takes more of them.
    """
    account = queues.account(preemptor.queue)
    requested = queues.asked(preemptor.pods)
    return any(
        _is_within(each, requested)
        for each in (account, *account.above[:ancestors])
        if each is account or each.fact.name != ROOT
    )


def _is_within(account: QueueAccount, requested: Mapping[str, int]) -> bool:
    asked = _counted(requested.items(), account.deserved)
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

    def allows(victims: Sequence[EvictionCandidate]) -> bool:
        left: dict[str, Counter[str]] = {}
        for victim in victims:
            if victim.group not in left:
                left[victim.group] = Counter(queues.groups.allocated(victim.group))
            add(left[victim.group], queues.amounts(victim.uid), -1)
        return all(queues.share(amounts) >= wanted - _ROUNDING for amounts in left.values())

    return allows


def larger_share_in_tree(queues: Queues, preemptor: Preemptor) -> Allows:
    """Return the rule of the plugin ``drf`` for reclaim in a tree of queues: a queue keeps what the taker has as well.

    In the first part of their paths in which they differ the queue of a victim has the larger share, also when the
    group has its pods and the victims are gone: so it does not take them back.

    Source: Volcano pkg/scheduler/plugins/drf (reclaimFn, compareQueues). There each victim is looked at alone, and a
    queue with a job that has nothing takes from all whose jobs have something, whatever their shares.
    """
    tree = queues.policies.tree

    def shares(queue: str) -> list[float]:
        return [] if tree is None else [share for _, share in tree.levels(queue)]

    def allows(victims: Sequence[EvictionCandidate]) -> bool:
        with Trial(queues.undo_log):
            for pod in preemptor.pods:
                queues.hold(pod.uid)
            for victim in victims:
                queues.release(victim.uid)
            taker = shares(preemptor.queue)
            givers = [shares(queue) for queue in {victim.queue for victim in victims}]
        return all(taker[: len(giver)] < giver[: len(taker)] for giver in givers)

    return allows


def within_budgets(budget: Callable[[GroupKey], int]) -> Allows:
    """Return the rule of the plugin ``tdm``: of each job at most so many pods go at a time.

    Source: Volcano pkg/scheduler/plugins/tdm (maxVictims).
    """

    def allows(victims: Sequence[EvictionCandidate]) -> bool:
        return all(number <= budget(group) for group, number in Counter(each.group for each in victims).items())

    return allows


def all_of(rules: Iterable[Allows]) -> Allows:
    """Return the rule that all of these allow it."""
    rules = tuple(rules)
    return lambda victims: all(rule(victims) for rule in rules)
