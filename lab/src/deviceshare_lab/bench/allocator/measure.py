"""Measurement of the allocator: places the pods or gangs of a workload one after the other."""

import gc
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from deviceshare.allocation import Allocator, Placement, PodClass, Ties
from deviceshare.model import GroupKey, PodRequest, Tenant
from deviceshare.queueing import Group, decide
from msgspec.structs import replace

from deviceshare_lab.bench.allocator.workload import Workload, pod_fact

_LEARNED = 200
"""How many pods with each request arrived before the measurement."""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes; Linux reports KiB."""


class Run(NamedTuple):
    """The measurements. ``microseconds``: of each pod or gang, sorted. ``placements``: in the order of pods, None for a
    pod that does not fit. ``start_bytes``, ``peak_bytes``: memory of the process before the run, and its maximum.
    """

    seconds: float
    microseconds: list[float]
    placements: list[tuple[str, Placement | None]]
    nodes: int
    setup_seconds: float
    start_bytes: int
    peak_bytes: int


def measure(workload: Workload, ties: Ties, *, gang: int = 0, keep: bool) -> Run:
    """Add the nodes, then place and charge each pod, or each gang of ``gang`` pods; ``keep`` the placements."""
    start_bytes = _memory()
    began = time.perf_counter()
    allocator = Allocator(workload.conf, ties)
    # Held as by the placement service's records of pods, so that equal requests are read once.
    pod_classes = set[PodClass]()
    for node, pods in workload.nodes:
        allocator.set_node(node)
        for pod in pods:
            pod_classes.add(allocator.pod_class(pod.ask))
            allocator.hold(node.name, pod.uid, pod.held, allocator.amounts(pod.ask))
    if workload.conf.scoring.fragmentation:
        allocator.learn()
        # As in a cluster that has seen these requests before.
        for request in _LEARNED * list(workload.requests):
            allocator.arrived(request)
    # Every request is evaluated once before the measurement of the steady state.
    for request in workload.requests:
        allocator.place(request)
    steps = _gangs(allocator, workload, gang) if gang else _pods(allocator, workload)
    gc.collect()
    gc.freeze()
    setup = time.perf_counter() - began
    times: list[float] = []
    placements: list[tuple[str, Placement | None]] = []
    clock = time.perf_counter
    start = clock()
    for step in steps:
        before = clock()
        found = step()
        times.append(clock() - before)
        placements += found if keep else [each for each in found if each[1] is None]
    seconds = clock() - start
    microseconds = sorted(each * 1e6 for each in times)
    return Run(seconds, microseconds, placements, allocator.nodes, setup, start_bytes, _memory())


_Step = Callable[[], list[tuple[str, Placement | None]]]


def _pods(allocator: Allocator, workload: Workload) -> list[_Step]:
    """Return one step per pod."""
    learns = allocator.learns
    tenants = workload.tenants or [Tenant()] * len(workload.requests)

    def place(name: str, request: PodRequest, tenant: Tenant) -> list[tuple[str, Placement | None]]:
        if learns:
            allocator.arrived(request)
        placement = allocator.place(request)
        if placement is not None:
            allocator.take(name, placement, tenant)
        return [(name, placement)]

    return [partial(place, name, workload.requests[number], tenants[number]) for name, number in workload.pods]


def _gangs(allocator: Allocator, workload: Workload, size: int) -> list[_Step]:
    """Return one step per gang; the last gang may be smaller."""

    def place(group: Group) -> list[tuple[str, Placement | None]]:
        decision = decide(allocator, group)
        return [*((pod.name, at) for pod, at in decision.placed), *((pod.name, None) for pod, _ in decision.waiting)]

    facts = [pod_fact(name, {}, annotations={}) for name, _ in workload.pods]
    pods = [
        replace(fact, uid=fact.name, ask=workload.requests[number])
        for fact, (_, number) in zip(facts, workload.pods, strict=True)
    ]
    groups = [tuple(pods[at : at + size]) for at in range(0, len(pods), size)]
    return [
        partial(place, Group(key=GroupKey(f"bench/gang-{number}"), pods=group, minimum=len(group)))
        for number, group in enumerate(groups)
    ]


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
