"""Dominant resource fairness (DRF).

Source: Volcano pkg/scheduler/plugins/drf. Hierarchies of queues are in :mod:`deviceshare.queueing.hdrf`.
"""

from collections.abc import Mapping


def dominant_share(allocated: Mapping[str, float], total: Mapping[str, int]) -> float:
    """Return the largest allocated fraction of the total over all resources."""
    return max((amount / has for name, amount in allocated.items() if (has := total.get(name, 0)) > 0), default=0.0)
