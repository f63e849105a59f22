"""Short constructors for tests: nodes with cards, pods with requests, an allocator with these nodes."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.kernels import NEVER
from deviceshare.model import (
    Card,
    Claim,
    ContainerGrant,
    ContainerRequest,
    GroupKey,
    NodeFact,
    PodFact,
    PodRequest,
    PodUid,
    Problem,
    Taint,
)
from msgspec.structs import replace

GIB = 2**30

NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
CORES, PERCENTAGE = "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage"
SHARE, WHOLE_CARDS = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"


def card(
    index: int, *, memory: int = 32768, slots: int = 10, model: str = "NVIDIA-Tesla V100", healthy: bool = True,
    mode: str = "hami-core", node: str = "",
) -> Card:  # fmt: skip
    """Return a vGPU card ``GPU-<node><index>``."""
    return Card(f"GPU-{node}{index}", index, slots, memory, 100, model, healthy, mode)


def cards(count: int, **what: Any) -> list[Card]:
    """Return so many vGPU cards that are alike."""
    return [card(index, **what) for index in range(count)]


def share_cards(count: int, *, memory: int = 11178, unhealthy: Iterable[int] = ()) -> tuple[Card, ...]:
    """Return the cards of a gpu-share node."""
    return tuple(
        Card(str(index), index, max(memory, 1), memory, 100, healthy=index not in unhealthy, mode="gpu-share")
        for index in range(count)
    )


def whole_cards(count: int, *, unhealthy: Iterable[int] = ()) -> tuple[Card, ...]:
    """Return the cards of a node whose GPU plugin serves them whole."""
    return share_cards(count, memory=0, unhealthy=unhealthy)


def node(
    name: str = "n1", cards: Iterable[Card] = (), *, cpu: int = 64_000, memory: int = 256 * GIB, pods: int = 110,
    labels: Mapping[str, str] | None = None, taints: Iterable[Taint] = (), ready: bool = True,
    unschedulable: bool = False, **resources: int,
) -> NodeFact:  # fmt: skip
    """Return a node with plenty of CPU and memory."""
    return NodeFact(
        name=name,
        cards=tuple(cards),
        allocatable={"cpu": cpu, "memory": memory, "pods": pods, **resources},
        labels=dict(labels or {}),
        taints=tuple(taints),
        ready=ready,
        unschedulable=unschedulable,
    )


def container(name: str = "main", *, sidecar: bool = False, **resources: int) -> ContainerRequest:
    """Return what one container asks; write names that are no Python names as ``**{name: amount}``."""
    return ContainerRequest(name, tuple(sorted(resources.items())), sidecar)


def ask(*containers: ContainerRequest, annotations: Mapping[str, str] | None = None, **rest: object) -> PodRequest:
    """Return what a pod asks."""
    return PodRequest(containers=containers, annotations=tuple(sorted((annotations or {}).items())), **rest)  # type: ignore[arg-type]


def vgpu(
    number: int | None = 1, memory: int | None = None, cores: int | None = None, percentage: int | None = None,
    *, annotations: Mapping[str, str] | None = None, containers: int = 1,
) -> PodRequest:  # fmt: skip
    """Return a pod that asks the same vGPUs in each of its containers."""
    amounts = {NUMBER: number, MEMORY: memory, CORES: cores, PERCENTAGE: percentage}
    limits = {name: amount for name, amount in amounts.items() if amount is not None}
    return ask(*(container(f"c{at}", **limits) for at in range(containers)), annotations=annotations)


def share(memory: int, *, index: str | None = None) -> PodRequest:
    """Return a pod that asks MiB of one card of a gpu-share node."""
    return ask(container(**{SHARE: memory}), annotations=_index(index))


def whole(count: int, *, index: str | None = None) -> PodRequest:
    """Return a pod that asks whole cards of the GPU plugin."""
    return ask(container(**{WHOLE_CARDS: count}), annotations=_index(index))


def _index(index: str | None) -> dict[str, str]:
    return {} if index is None else {"volcano.sh/gpu-index": index}


def pod(
    name: str, what: PodRequest | None = None, *, uid: str | None = None, gang: str = "", node: str = "",
    held: tuple[ContainerGrant, ...] = (), **rest: object,
) -> PodFact:  # fmt: skip
    """Return a pod in namespace ``ns``; ``gang`` is the name of its PodGroup."""
    uid = uid or f"uid-{name}"
    return PodFact(
        uid=PodUid(uid),
        namespace="ns",
        name=name,
        group=GroupKey(f"ns/{gang}" if gang else f"pod/{uid}"),
        queue="default",
        node=node,
        held=held,
        ask=what if what is not None else vgpu(),
        **rest,  # type: ignore[arg-type]
    )


def conf(policy: str = "", weight: int = 0) -> SchedulerConf:
    """Return a configuration with every family on."""
    return replace(default_conf(), policy=policy, weight=weight)


def cluster(*nodes: NodeFact, policy: str = "", weight: int = 0, **more: object) -> Allocator:
    """Return an allocator that knows these nodes; ``more`` are further values of the configuration."""
    allocator = Allocator(replace(conf(policy, weight), **more))
    for each in nodes:
        allocator.set_node(each)
    return allocator


def problem(what: PodRequest) -> Problem:
    """Return what is wrong with a request for vGPUs."""
    found = cluster(node(cards=cards(2))).why_not(what).problem
    assert found is not None
    return found


def take(allocator: Allocator, what: PodRequest, uid: str) -> Placement:
    """Place a pod that must fit, and hold its place."""
    placement = allocator.place(what)
    assert placement is not None, allocator.why_not(what)
    allocator.take(uid, placement)
    return placement


def claim_of(placement: Placement) -> Claim:
    """Return a claim of a placement."""
    return Claim(id="1", uid="u", namespace="ns", name="a", grants=placement.grants)


def weighted_scores(allocator: Allocator, what: PodRequest) -> dict[str, float]:
    """Return the score by which nodes are compared of each feasible node."""
    pod_class = allocator._refreshed(what)
    if pod_class.unschedulable:
        return {}
    keys = np.asarray(pod_class.ranking.node_index.best.keys)
    return {allocator._name(row): float(keys[row]) for row in np.flatnonzero(keys > NEVER).tolist()}


def devices(placement: Placement | None) -> list[tuple[str, int, int]]:
    """Return id, memory and cores of each device of a placement, container after container."""
    assert placement is not None
    return [(device.id, device.memory, device.cores) for grant in placement.grants for device in grant.devices]


def chosen(placement: Placement | None) -> list[int]:
    """Return the indexes of the devices of a placement, container after container."""
    assert placement is not None
    return [device.index for grant in placement.grants for device in grant.devices]


def codes(allocator: Allocator, what: PodRequest) -> set[str]:
    """Return the codes of the reasons why no node takes a pod."""
    assert allocator.place(what) is None
    return {refusal.code for refusal in allocator.why_not(what).refusals}
