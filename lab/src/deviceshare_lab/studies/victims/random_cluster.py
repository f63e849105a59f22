"""A small random cluster that is nearly full, and a group that waits: for the scheduler, and as plain data."""

from random import Random
from typing import NamedTuple

from deviceshare.model import Card, NodeFact, PodRequest
from msgspec.structs import replace

from deviceshare_lab.clusters.facts import make_request
from deviceshare_lab.clusters.preemption_scene import PRIORITIES, USUAL, PreemptionScene, conf
from deviceshare_lab.studies.victims.exact import PlainCluster, PlainNode, PlainPod

EQUAL, MIXED, RECLAIM = "equal", "mixed", "reclaim"
KINDS = (EQUAL, MIXED, RECLAIM)
"""Whether the pods of the group have equal requests, or different ones; or are in a queue that takes from others."""
GROUP = "new"
"""The name of the group that waits."""

_CARD = 12_000
"""MiB of each card."""
_LEVELS = ("", "low", "mid")
_RECLAIMING = conf("priority", "capacity", actions="enqueue, allocate, reclaim, backfill")
_MAX_PODS = 10
"""Pods that run, about: the exact search tries all sets of them."""


class RandomCluster(NamedTuple):
    """The cluster of the scheduler, the same as plain data, and the pods that wait."""

    scene: PreemptionScene
    plain: PlainCluster
    waiting: list[PlainPod]


def made(seed: int, kind: str = EQUAL) -> RandomCluster:
    """Return a cluster of a kind."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    reclaims = kind == RECLAIM
    cards = random.choice((0, 1, 2, 2, 3))
    nodes = [
        PlainNode(f"n{at}", random.choice((3000, 4000, 6000)), {f"GPU-n{at}{each}": _CARD for each in range(cards)})
        for at in range(random.choice((1, 2, 2, 3)))
    ]
    scene = PreemptionScene(*map(_node, nodes), conf=_RECLAIMING if reclaims else USUAL)
    deserved = {name: random.choice((1000, 2000, 3000)) for name in "abc"} | {GROUP: 4000} if reclaims else {}
    for name, amount in deserved.items():
        scene.queue(name, deserved={"cpu": amount})
    minimums, shapes = _run_jobs(random, scene, cards, reclaims=reclaims)
    facts = [record.fact for record in scene.scheduler.pods.values() if record.fact.node]
    pods = [
        shapes[fact.group.removeprefix("ns/")]._replace(
            name=fact.name,
            node=fact.node,
            cards=tuple(device.id for grant in fact.held for device in grant.devices),
        )
        for fact in facts
    ]
    budgets = []
    if random.random() < 0.4:
        selected = frozenset(fact.name for fact in facts if ("app", "a") in fact.labels)
        most = random.randint(0, len(selected))
        scene.budget("b", labels={"app": "a"}, allowed=most)
        budgets.append((selected, most))
    waiting = _waiting(random, scene, cards, kind)
    return RandomCluster(scene, PlainCluster(nodes, pods, minimums, budgets, deserved), waiting)


def _node(node: PlainNode) -> NodeFact:
    cards = tuple(
        Card(name, at, 10, memory, 100, "NVIDIA-Tesla V100", mode="hami-core")
        for at, (name, memory) in enumerate(node.cards.items())
    )
    return NodeFact(name=node.name, cards=cards, allocatable={"cpu": node.cpu, "memory": 2**38, "pods": 110})


def _run_jobs(
    random: Random, scene: PreemptionScene, cards: int, *, reclaims: bool
) -> tuple[dict[str, int], dict[str, PlainPod]]:
    """Run jobs; returns the minimum of each, and what its pods ask."""
    minimums: dict[str, int] = {}
    shapes: dict[str, PlainPod] = {}
    running = 0
    for at in range(_MAX_PODS + 2):
        level, count = random.choice(_LEVELS), random.choice((1, 1, 2, 3))
        group = f"v{at}"
        pod = _shape(random, group, level, cards)
        minimums[group] = random.randint(1, count)
        labels = (("app", random.choice("ab")),) if random.random() < 0.4 else ()
        queue = random.choice("abc") if reclaims else "default"
        shapes[group] = pod._replace(queue=queue)
        scene.job(group, _request(pod), count, level=level, minimum=minimums[group], labels=labels, queue=queue)
        running += len(scene.bind())
        if running >= _MAX_PODS:
            break
    return minimums, shapes


def _waiting(random: Random, scene: PreemptionScene, cards: int, kind: str) -> list[PlainPod]:
    """Add the group that waits; returns its pods."""
    count = random.choice((2, 3) if kind == MIXED else (1, 1, 1, 2, 3))
    pod = _shape(random, GROUP, "high", cards)
    waiting = [pod._replace(name=f"{GROUP}-{at}") for at in range(count)]
    if kind == MIXED:
        waiting[1:] = [_shape(random, GROUP, "high", cards)._replace(name=each.name) for each in waiting[1:]]
    level = random.choice(_LEVELS) if kind == RECLAIM else "high"
    queue = GROUP if kind == RECLAIM else "default"
    waiting = [each._replace(level=PRIORITIES[level], queue=queue) for each in waiting]
    facts = scene.job(GROUP, _request(pod), count, level=level, minimum=count, queue=queue)
    for fact, each in zip(facts, waiting, strict=True):
        scene.put(f"pod {fact.uid}", replace(fact, ask=_request(each)))
    return waiting


def _shape(random: Random, group: str, level: str, cards: int) -> PlainPod:
    """Return what the pods of a group ask."""
    plain = PlainPod("", group, PRIORITIES[level], random.choice((500, 1000, 2000, 3000)))
    if not cards or random.random() < 0.3:
        return plain
    return plain._replace(
        cpu=random.choice((100, 500)),
        number=random.choice((1, 1, 1, min(2, cards))),
        memory=random.choice((2000, 4000, 6000, 8000)),
        cores=random.choice((0, 0, 30)),
    )


def _request(pod: PlainPod) -> PodRequest:
    amounts = {"cpu": pod.cpu}
    if pod.number:
        amounts |= {"volcano.sh/vgpu-number": pod.number, "volcano.sh/vgpu-memory": pod.memory}
    if pod.number and pod.cores:
        amounts["volcano.sh/vgpu-cores"] = pod.cores
    return make_request(amounts)
