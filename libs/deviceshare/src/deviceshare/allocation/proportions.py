"""The predicate ``predicate.ProportionalEnable``: other pods leave CPU and memory for the free cards of a node.

Source: Volcano pkg/scheduler/plugins/predicates/proportional.go. With 8 cores for each of ``nvidia.com/gpu``, a pod
without GPUs is placed on a node with two free GPUs only if 16 cores stay free. Pods that request any of the resources
are not restricted.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from deviceshare.conf import Proportion
from deviceshare.families import Check
from deviceshare.model import PodRequest, ResourceAmounts
from deviceshare.state import Bools, Ints, ResourceTable

_UNITS = {"cpu": 1000, "memory": 10**9}
"""The unit of a rate (cores, GB) in the unit of the table (millicores, bytes)."""


def proportions(request: PodRequest, configured: Sequence[Proportion]) -> tuple[Proportion, ...]:
    """Return the proportions that restrict a pod: all, or none if it requests one of the resources."""
    containers = (*request.containers, *request.init_containers)
    if any(container.get(each.resource) for each in configured for container in containers):
        return ()
    return tuple(configured)


def keeps(each: Proportion, asked: ResourceAmounts, table: ResourceTable, rows: Ints) -> Bools:
    """Return bool[R]: whether nodes keep enough CPU and memory for their free cards with a further pod."""
    of_pod = dict(asked)
    kept = np.ones(len(rows), dtype=np.bool_)
    cards = table.free(rows, each.resource)
    offers = table.allocatable(rows, each.resource) > 0
    for name, rate in (("cpu", each.cpu), ("memory", each.memory)):
        left = table.free(rows, name) - of_pod.get(name, 0)
        kept &= left >= cards * (rate * _UNITS[name])
    return kept | ~offers


def keep_all(needed: Iterable[Proportion], asked: ResourceAmounts, table: ResourceTable, rows: Ints) -> Bools:
    """Return bool[R]: whether nodes keep enough for all proportions."""
    kept = np.ones(len(rows), dtype=np.bool_)
    for each in needed:
        kept &= keeps(each, asked, table, rows)
    return kept


def proportion_checks(
    needed: Iterable[Proportion], asked: ResourceAmounts, table: ResourceTable, rows: Ints
) -> list[Check]:
    """Return the checks that fail on nodes that would not keep enough CPU or memory."""
    checks = []
    for each in needed:
        short = ~keeps(each, asked, table, rows)
        if short.any():
            text = f"node(s) keep {each.cpu:g} CPUs and {each.memory:g} GB for each free {each.resource}"
            checks.append(Check("ProportionNotKept", text, short, np.zeros(len(rows), dtype=np.int64)))
    return checks
