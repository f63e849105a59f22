"""A made cluster whose cards are full: some pods alone on a card, some share one, some in gangs of a whole node."""

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from deviceshare.model import (
    AnyFact,
    ConfigFact,
    ContainerGrant,
    DeviceGrant,
    GroupKey,
    NodeFact,
    PodFact,
    PodGroupFact,
    PodUid,
    PriorityClassFact,
)

from deviceshare_lab.clusters.facts import make_cards, make_request

CARD_MEMORY = 80_000
NUMBER, MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
LEVELS = {"lowest": 10, "low": 100, "middle": 1_000}
"""The priorities of the pods that run."""
ABOVE, BELOW = {"high": 10_000}, {"bottom": 1}
"""Those of groups that wait: pods go for the first, none for the second."""
_CONF = {
    "actions": "enqueue, allocate, preempt, backfill",
    "tiers": [
        {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
        {"plugins": [{"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}]},
    ],
}


class Waiting(NamedTuple):
    """A group that waits: its name, how many pods it has, the cards of each, and its priority class."""

    name: str
    pods: int
    cards: int
    level: str


WAITING = (
    Waiting("one card", 1, 1, "high"),
    Waiting("eight cards", 1, 8, "high"),
    Waiting("gang of 64", 64, 1, "high"),
    Waiting("no pod may go", 1, 1, "bottom"),
)


def facts(nodes: int, cards: int, seed: int) -> Iterator[tuple[str, AnyFact]]:
    """Yield key and fact of each object of the cluster, the waiting groups last."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    yield "config", ConfigFact(name="scheduler", text=json.dumps(_CONF), source="conf")
    for name, value in (LEVELS | ABOVE | BELOW).items():
        yield f"class {name}", PriorityClassFact(name=name, value=value)
    for number in range(nodes):
        name = f"node-{number:05d}"
        yield (
            f"node {name}",
            NodeFact(
                name=name,
                cards=make_cards(name, cards, "NVIDIA-A100", CARD_MEMORY, 10),
                allocatable={"cpu": 256_000, "memory": 2**41, "pods": 1_000},
            ),
        )
        yield from _pods_of(name, cards, random)
    for each in WAITING:
        yield from _group(each.name, each.level, each.pods)
        for at in range(each.pods):
            fact = _pod(f"{each.name}-{at}", each.name, each.level, CARD_MEMORY, range(each.cards))
            yield f"pod {fact.uid}", fact


def _pods_of(node: str, cards: int, random: Random) -> Iterator[tuple[str, AnyFact]]:
    """Yield the pods of a node, one for each card: every fifth node runs a gang, on the others cards are shared."""
    level = random.choice([*LEVELS])
    if random.random() < 0.2:
        yield from _group(f"{node}-gang", level, cards)
        for card in range(cards):
            fact = _pod(f"{node}-{card}", f"{node}-gang", level, CARD_MEMORY, (card,), node)
            yield f"pod {fact.uid}", fact
        return
    pods, card = 0, 0
    while card < cards:
        # Two cards of one pod and two pods of one card keep the number of pods.
        double = random.random() < 0.2 and card + 1 < cards
        shapes = [((card, card + 1), CARD_MEMORY)] if double else [((card,), CARD_MEMORY)]
        if not double and pods < card:
            shapes = [((card,), CARD_MEMORY // 2)] * 2
        for held, memory in shapes:
            name, level = f"{node}-{card}-{pods}", random.choice([*LEVELS])
            yield from _group(name, level, 1)
            fact = _pod(name, name, level, memory, held, node)
            yield f"pod {fact.uid}", fact
            pods += 1
        card += len(shapes[0][0])


def _group(name: str, level: str, minimum: int) -> Iterator[tuple[str, AnyFact]]:
    key = GroupKey(f"bench/{name}")
    yield f"group {name}", PodGroupFact(
        key=key, uid=f"uid-{name}", min_member=minimum, queue="default", priority_class=level, phase="Running",
        admitted=True,
    )  # fmt: skip


def _pod(name: str, group: str, level: str, memory: int, held: range | tuple[int, ...], node: str = "") -> PodFact:
    """Return a pod that has these cards of its node, or waits for so many."""
    devices = tuple(DeviceGrant(f"{node}-{card}", card, memory, 0) for card in held)
    grants = (ContainerGrant("main", 0, "vgpu", devices),)
    return PodFact(
        uid=PodUid(f"uid-{name}"),
        namespace="bench",
        name=name,
        scheduler="volcano",
        priority=(LEVELS | ABOVE | BELOW)[level],
        group=GroupKey(f"bench/{group}"),
        queue="default",
        node=node,
        running=bool(node),
        ask=make_request({NUMBER: len(held), MEMORY: memory, "cpu": 1_000}),
        held=grants if node else (),
        signed=bool(node),
    )
