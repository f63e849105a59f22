"""``deviceshare lab bench allocator --slices``: claims for devices of ResourceSlices, placed one after the other."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import DeviceClaim, DeviceClaimFact, PodDeviceClaim, PodFact, PodUid, Tenant
from deviceshare_cli.output import indented_json, table
from msgspec.structs import replace

from deviceshare_lab.bench.allocator.workload import node_fact, pod_fact
from deviceshare_lab.clusters.cards import Published
from deviceshare_lab.clusters.facts import make_request
from deviceshare_lab.clusters.slices import KINDS, PROFILES, claim, classes, slices

_NO_CARDS = Published({}, {})
_MIXES = {"h100": [""], "a100-mig": [each.name for each in PROFILES if each.name != "7g.40gb"]}
"""What claims ask for in turn: a profile, or '' a whole card."""


def bench_slices(kind: str, nodes: int, pods: int, policy: str, *, as_json: bool) -> None:
    """Measure and print."""
    shown = measure(kind, nodes, pods, policy)
    print(
        indented_json(shown)
        if as_json
        else table(("MEASURE", "VALUE"), [(name, str(value)) for name, value in shown.items()])
    )


def measure(kind: str, nodes: int, pods: int, policy: str) -> dict[str, Any]:
    """Place claims until ``pods`` were tried, and return the measurements by name."""
    allocator = Allocator(replace(default_conf(), dra=True, policy=policy, nodeorder=None, binpack=None))
    for fact in classes():
        allocator.devices.put(fact)
    names = [f"node-{number:05}" for number in range(nodes)]
    for name in names:
        allocator.set_node(node_fact(name, _NO_CARDS))
    for profile in _MIXES[kind]:
        # Their attributes are known before the slices, as in a cluster where such claims wait.
        allocator.devices.put(claim(f"ns/known-{profile}", "", profile))
    gc.collect()
    tracemalloc.start()
    for name in names:
        for fact in slices(kind, name):
            allocator.devices.put(fact)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    devices = nodes * KINDS[kind] * (1 if kind == "h100" else 26)
    wanted = list(_wanted(kind, pods))
    for fact in wanted:
        allocator.devices.put(fact)
    requests = {
        profile: replace(make_request({"cpu": 100}), devices=allocator.devices.requests(_pod(fact)))
        for profile, fact in zip(_MIXES[kind], wanted, strict=False)
    }
    for request in requests.values():
        allocator.place(request)
    gc.collect()
    gc.freeze()
    placed, began, times = 0, time.thread_time(), []
    for number, fact in enumerate(wanted):
        before = time.thread_time()
        placement = allocator.place(requests[_MIXES[kind][number % len(_MIXES[kind])]])
        if placement is not None:
            allocator.take(fact.uid, placement, Tenant(devices=(DeviceClaim(fact.key),)))
            placed += 1
        times.append(time.thread_time() - before)
    seconds = time.thread_time() - began
    times.sort()
    return {
        "nodes": nodes, "devices": devices, "claims": pods, "placed": placed, "policy": policy,
        "claims_per_second": round(pods / seconds, 1),
        "microseconds_p50": round(1e6 * times[len(times) // 2], 1),
        "microseconds_p99": round(1e6 * times[int(0.99 * len(times))], 1),
        "bytes_per_device": round(held / devices, 1),
    }  # fmt: skip


def _pod(fact: DeviceClaimFact) -> PodFact:
    """Return the pod of a claim."""
    used = (PodDeviceClaim("gpu", fact.key, "template"),)
    return replace(pod_fact(fact.owner, {}, annotations={}), uid=PodUid(fact.owner), device_claims=used)


def _wanted(kind: str, pods: int) -> Iterator[Any]:
    mix = _MIXES[kind]
    for number in range(pods):
        yield claim(f"ns/claim-{number:06}", f"pod-{number}", mix[number % len(mix)])
