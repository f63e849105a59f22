"""The deserved amounts of queues: the cluster divided by weight, within guarantees, requests and capabilities.

Source: Volcano pkg/scheduler/plugins/proportion (OnSessionOpen), which approximates them in rounds. With guarantees its
rounds may distribute more than the cluster has; this module never does.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOTHING = 0.1
"""Amounts below this count as 0."""


class Claimant(msgspec.Struct, frozen=True):
    """A queue that competes for the cluster; ``request``: the total requests of its placed and waiting pods."""

    weight: int
    request: Mapping[str, int]
    capability: Mapping[str, int] = {}
    guarantee: Mapping[str, int] = {}


def deserved(total: Mapping[str, int], queues: Sequence[Claimant]) -> list[dict[str, float]]:
    """Return the deserved amount of each queue by resource: max-min fair by weight, within the queue's bounds.

    The lower bound is the guarantee; the upper bound is the smallest of request, capability, and total without the
    guarantees of other queues. A queue of weight 0 deserves its guarantee.
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
    # Both bounds of these queues are equal, so any weight will do.
    weight = np.where(weight > 0, weight, 1.0)
    found = [divide(amount, weight, *bounds) for amount, *bounds in zip(all_of, least.T, most.T, strict=True)]
    return [dict(zip(names, row.tolist(), strict=True)) for row in np.array(found).T]


def divide(total: float, weight: Floats, least: Floats, most: Floats) -> Floats:
    """Return float64[Q]: one multiple of all weights, clipped to the bounds, that adds up to the total if possible.

    The sum is piecewise linear in the multiple: its slope is the total weight of the queues within their bounds.
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
    """Return float64[Q, R]: the upper bound of each queue, by capability and the guarantees of other queues."""
    found: Floats = np.minimum(capability, np.maximum(0.0, total - guarantee.sum(axis=0)) + guarantee)
    return found


def share(allocated: Mapping[str, float], whole: Mapping[str, float]) -> float:
    """Return the largest fraction of ``whole`` that is allocated, over all resources; 0 if nothing is.

    With the deserved amounts of a queue as ``whole``, this is the share of the queue; with the cluster's total, the
    dominant share of ``drf``.
    """
    fractions = (amount / has for name, amount in allocated.items() if (has := whole.get(name, 0)) >= NOTHING)
    return max(fractions, default=0.0)


def _matrix(rows: Sequence[Mapping[str, int]], names: Sequence[str], default: float) -> Floats:
    return np.array([[row.get(name, default) for name in names] for row in rows], dtype=np.float64)
