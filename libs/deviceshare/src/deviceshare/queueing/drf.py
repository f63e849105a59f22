"""Dominant resource fairness: a job has as much as it has of the resource of which it has the largest part.

Source: Volcano pkg/scheduler/plugins/drf. Hierarchies of queues are in :mod:`deviceshare.queueing.hdrf`.
"""

from collections.abc import Mapping


def dominant_share(allocated: Mapping[str, float], total: Mapping[str, int]) -> float:
    """Return the largest part, over all resources, of all that there is."""
    return max((amount / has for name, amount in allocated.items() if (has := total.get(name, 0)) > 0), default=0.0)
