"""What every queue deserves: the cluster divided by weights, as far as the queues ask for it. Pure arithmetic.

Source: Volcano pkg/scheduler/plugins/proportion (OnSessionOpen), which comes near to it round by round. Where queues
have guarantees its rounds may give out more than there is; here they never do.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOTHING = 0.1
"""Less than this of a resource is none of it."""


class Claimant(msgspec.Struct, frozen=True):
    """A queue that asks for a part of the cluster: ``request`` is what its pods have and ask together."""

    weight: int
    request: Mapping[str, int]
    capability: Mapping[str, int] = {}
    guarantee: Mapping[str, int] = {}


def deserved(total: Mapping[str, int], queues: Sequence[Claimant]) -> list[dict[str, float]]:
    """Return what each queue deserves of each resource: its guarantee at least, its request or capability at most.

    Between those bounds all have the same multiple of their weight, the largest that there is enough for. A queue of
    weight 0 deserves its guarantee and nothing else.
    """
    names = sorted({name for name, amount in total.items() if amount > 0})
    if not names or not queues:
        return [{} for _ in queues]
    all_of = np.array([total[name] for name in names], dtype=np.float64)
    weight = np.array([queue.weight for queue in queues], dtype=np.float64)
    least = _matrix([queue.guarantee for queue in queues], names, 0.0)
    request = _matrix([queue.request for queue in queues], names, 0.0)
    most = np.minimum(request, limits(all_of, least, _matrix([queue.capability for queue in queues], names, np.inf)))
    most = np.where(weight[:, np.newaxis] > 0, np.maximum(least, most), least)
    # Where both bounds are the same any weight finds it.
    weight = np.where(weight > 0, weight, 1.0)
    found = [divide(amount, weight, *bounds) for amount, *bounds in zip(all_of, least.T, most.T, strict=True)]
    return [dict(zip(names, row.tolist(), strict=True)) for row in np.array(found).T]


def divide(total: float, weight: Floats, least: Floats, most: Floats) -> Floats:
    """Return float64[Q]: a multiple of the weights within bounds, adding up to the total as far as the bounds let it.

    The more there is, the more have what they ask: between two such points what is given grows by the weights of the
    others.
    """
    if total >= most.sum():
        return most
    points = np.concatenate([least / weight, most / weight])
    order = np.argsort(points, kind="stable")
    points = points[order]
    slopes = np.cumsum(np.concatenate([weight, -weight])[order])
    given = least.sum() + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(points))])
    at = int(np.searchsorted(given, total, side="right")) - 1
    if at < 0:
        return least
    level = points[at] + (total - given[at]) / slopes[at] if slopes[at] > 0 else points[at]
    found: Floats = np.clip(level * weight, least, most)
    return found


def limits(total: Floats, guarantee: Floats, capability: Floats) -> Floats:
    """Return float64[Q, R]: the most that each queue may have, its capability and what others are not guaranteed."""
    found: Floats = np.minimum(capability, np.maximum(0.0, total - guarantee.sum(axis=0)) + guarantee)
    return found


def share(allocated: Mapping[str, int], deserved: Mapping[str, float]) -> float:
    """Return how much a queue has of what it deserves: the largest part over all resources that it deserves any of."""
    return max((allocated.get(name, 0) / amount for name, amount in deserved.items() if amount >= NOTHING), default=0.0)


def _matrix(rows: Sequence[Mapping[str, int]], names: Sequence[str], default: float) -> Floats:
    return np.array([[row.get(name, default) for name in names] for row in rows], dtype=np.float64)
