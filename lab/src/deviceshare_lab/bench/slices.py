"""``deviceshare lab bench allocator --slices``: claims for devices of ResourceSlices, placed one after the other."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import DeviceClaim, DeviceClaimFact, Tenant
from deviceshare_cli.output import indented_json, table
from msgspec.structs import replace

from deviceshare_lab.bench.allocator.workload import node_fact
from deviceshare_lab.clusters.cards import Published
from deviceshare_lab.clusters.facts import make_request
from deviceshare_lab.clusters.slices import KINDS, PROFILES, claim, claiming, classes, slices

_NO_CARDS = Published({}, {})
_MIXES = {"h100": [""], "a100-mig": [each.name for each in PROFILES if each.name != "7g.40gb"]}
"""What claims ask for in turn: a profile, or '' a whole card."""
_BLOCK = 50
"""Claims that are placed between two looks at the clock, and that end before from the half on."""


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
    for device_class in classes():
        allocator.devices.put(device_class)
    names = [f"node-{number:05}" for number in range(nodes)]
    for name in names:
        allocator.set_node(node_fact(name, _NO_CARDS))
    for profile in _MIXES[kind]:
        # Their attributes are known before the slices, as in a cluster where such claims wait.
        allocator.devices.put(claim(f"ns/known-{profile}", "", profile))
    gc.collect()
    tracemalloc.start()
    for name in names:
        for of_node in slices(kind, name):
            allocator.devices.put(of_node)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    devices = nodes * KINDS[kind] * (1 if kind == "h100" else 26)
    facts = list(_wanted(kind, pods))
    for fact in facts:
        allocator.devices.put(fact)
    requests = {
        profile: replace(make_request({"cpu": 100}), devices=allocator.devices.requests(claiming(fact)))
        for profile, fact in zip(_MIXES[kind], facts, strict=False)
    }
    wanted = [
        (fact.key, f"uid-{number}", requests[_MIXES[kind][number % len(_MIXES[kind])]])
        for number, fact in enumerate(facts)
    ]
    for request in requests.values():
        allocator.place(request)
    gc.collect()
    gc.freeze()
    found, placed, seconds = 0, list[tuple[str, str]](), 0.0
    rng = Random(nodes)  # noqa: S311 - repeatable, not secret
    for block in range(0, pods, _BLOCK):
        for _ in range(_BLOCK if block >= pods // 2 and len(placed) > _BLOCK else 0):
            at = rng.randrange(len(placed))
            placed[at], placed[-1] = placed[-1], placed[at]
            allocator.release(*placed.pop())
        before = time.thread_time()
        for number in range(block, min(block + _BLOCK, pods)):
            key, uid, request = wanted[number]
            placement = allocator.place(request)
            if placement is not None:
                allocator.take(uid, placement, Tenant(devices=(DeviceClaim(key),)))
                placed.append((placement.node, uid))
                found += 1
        seconds += time.thread_time() - before
    return {
        "nodes": nodes, "devices": devices, "claims": pods, "placed": found, "policy": policy,
        "claims_per_second": round(pods / seconds, 1),
        "bytes_per_device": round(held / devices, 1),
    }  # fmt: skip


def _wanted(kind: str, pods: int) -> Iterator[DeviceClaimFact]:
    mix = _MIXES[kind]
    for number in range(pods):
        yield claim(f"ns/claim-{number:06}", f"pod-{number}", mix[number % len(mix)])
