"""The deserved amounts of queues by the rounds of Volcano's plugin ``proportion``.

The rounds approach the result of :func:`.proportion.deserved`. They end slightly below it, and with guarantees they
distribute more than the cluster has, so decisions about queues at their limit may differ.

Source: Volcano pkg/scheduler/plugins/proportion (OnSessionOpen).
"""

from collections.abc import Mapping, Sequence

from deviceshare.queueing.proportion import Claimant

ScaledAmounts = dict[str, float]
"""Amounts by resource name, in Volcano's units."""

_MAX_ROUNDS = 1000
_NOTHING = 0.1
"""Amounts below this count as 0, in Volcano's units."""
_IN_UNITS = ("cpu", "memory", "pods")
"""Resources with the same unit here and in Volcano, which counts all others in thousandths."""


def deserved_by_rounds(
    total: Mapping[str, int], queues: Sequence[Claimant], guaranteed: Mapping[str, int]
) -> list[dict[str, float]]:
    """Return the deserved amount of each queue by resource.

    Args:
        total: the cluster's resources.
        queues: the queues with pods.
        guaranteed: the total guarantees of all queues, including those without pods.
    """
    names = [*dict.fromkeys(("cpu", "memory", *total))]
    has, all_guaranteed = _scaled(total, names), _scaled(guaranteed, names)
    queue_limits = [_limit(queue, has, all_guaranteed, names) for queue in queues]
    requests = [_scaled(queue.request, names) for queue in queues]
    guarantees = [_scaled(queue.guarantee, names) for queue in queues]
    found: list[ScaledAmounts] = [dict.fromkeys(names, 0.0) for _ in queues]
    remaining, open_queues = dict(has), dict.fromkeys(range(len(queues)))
    for _ in range(_MAX_ROUNDS):
        weights = sum(queues[at].weight for at in open_queues)
        if not weights:
            break
        before = dict(remaining)
        increased, decreased = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for at in list(open_queues):
            old = found[at]
            part = queues[at].weight / weights
            new = {
                name: max(
                    min(old[name] + remaining[name] * part, queue_limits[at][name], requests[at][name]),
                    guarantees[at][name],
                )
                for name in names
            }
            found[at] = new
            if new == old or all(requests[at][name] - new[name] < _NOTHING for name in names):
                del open_queues[at]
            for name in names:
                difference = new[name] - old[name]
                increased[name] += max(0.0, difference)
                decreased[name] += max(0.0, -difference)
        remaining = {name: max(0.0, remaining[name] + decreased[name] - increased[name]) for name in names}
        if remaining == before or all(amount < _NOTHING for name, amount in remaining.items() if name != "pods"):
            break
    return [{name: amount / _scale(name) for name, amount in each.items()} for each in found]


def _limit(queue: Claimant, total: ScaledAmounts, guaranteed: ScaledAmounts, names: Sequence[str]) -> ScaledAmounts:
    """Return the upper bound of a queue, by its capability and the guarantees of other queues."""
    guarantee = _scaled(queue.guarantee, names)
    limit = {name: max(0.0, total[name] - guaranteed[name]) + guarantee[name] for name in names}
    return {
        name: min(most, queue.capability[name] * _scale(name)) if name in queue.capability else most
        for name, most in limit.items()
    }


def _scaled(amounts: Mapping[str, int], names: Sequence[str]) -> ScaledAmounts:
    return {name: float(amounts.get(name, 0)) * _scale(name) for name in names}


def _scale(name: str) -> float:
    return 1.0 if name in _IN_UNITS else 1000.0
