"""Placing a workload with one allocator, one pod after the other."""

import gc
import resource
import sys
import time
from typing import NamedTuple

from deviceshare.allocator import Allocator, Placement

from deviceshare_cli.bench.allocator.workload import Workload

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes: Linux counts in KiB."""


class Run(NamedTuple):
    """``microseconds`` of each pod, sorted; ``placements`` in the order of the pods, None where there was no place."""

    seconds: float
    microseconds: list[float]
    placements: list[tuple[str, Placement | None]]
    nodes: int
    setup_seconds: float
    peak_bytes: int


def measure(workload: Workload, *, keep: bool) -> Run:
    """Enter the nodes, then place and hold each pod. Placements are kept only where somebody wants them."""
    began = time.perf_counter()
    allocator = Allocator(workload.conf)
    for node, pods in workload.nodes:
        allocator.set_node(node)
        for pod in pods:
            allocator.hold(node.name, pod.uid, pod.held, allocator.amounts(pod.ask))
    # Each shape is looked at once before the clock runs: what is measured is the steady state.
    for ask in workload.asks:
        allocator.place(ask)
    gc.collect()
    gc.freeze()
    setup = time.perf_counter() - began
    times: list[float] = []
    placements: list[tuple[str, Placement | None]] = []
    clock = time.perf_counter
    start = clock()
    for name, number in workload.pods:
        before = clock()
        placement = allocator.place(workload.asks[number])
        if placement is not None:
            allocator.hold(
                placement.node,
                name,
                placement.grants,
                placement.resources,
                ports=placement.ports,
                counted=placement.counted,
            )
        times.append(clock() - before)
        if keep or placement is None:
            placements.append((name, placement))
    seconds = clock() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
    return Run(seconds, sorted(each * 1e6 for each in times), placements, allocator.nodes, setup, peak)
