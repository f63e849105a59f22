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
    Gone,
    GroupKey,
    NodeFact,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PodUid,
    PriorityClassFact,
)

from deviceshare_lab.clusters.facts import make_cards, make_request


class CardType(NamedTuple):
    """The cards of all nodes: family, model, MiB, and what the grants of a whole card and of a half have as detail.

    ``resource``: the name by which pods request cards; ``offered``: whether nodes offer it to kubelet.
    """

    family: str
    mode: str
    model: str
    memory: int
    whole: str
    half: str
    resource: str
    memory_resource: str
    offered: bool = False


_VGPU = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory")
_CHIP = "huawei.com/Ascend910B3"
CARD_TYPES = {
    "hami-core": CardType("vgpu", "hami-core", "NVIDIA-A100", 80_000, "", "", *_VGPU),
    "mig": CardType("mig", "mig", "NVIDIA-A100", 80_000, "one-0", "two-{}", *_VGPU),
    "vnpu-hami": CardType(
        "hami-vnpu", "vnpu", "Ascend910B3", 65_536, "Ascend910B3", "Ascend910B3/half", _CHIP, f"{_CHIP}-memory",
        offered=True,
    ),
}  # fmt: skip
_SLOTS = 10
_WHOLE = -1
"""Not a half of a card."""
_DEVICES = {
    "nvidia": {
        "knownMigGeometries": [
            {
                "models": ["NVIDIA-A100"],
                "allowedGeometries": [
                    {"group": "one", "geometries": [{"name": "7g.80gb", "memory": 80_000, "count": 1}]},
                    {"group": "two", "geometries": [{"name": "3g.40gb", "memory": 40_000, "count": 2}]},
                ],
            }
        ]
    },
    "vnpus": [
        {
            "chipName": "910B3", "commonWord": "Ascend910B3", "resourceName": _CHIP,
            "resourceMemoryName": f"{_CHIP}-memory", "memoryAllocatable": 65_536, "memoryCapacity": 65_536,
            "aiCore": 20, "aiCPU": 7,
            "templates": [{"name": "half", "memory": 32_768, "aiCore": 10, "aiCPU": 3}],
        }
    ],
}  # fmt: skip
LEVELS = {"lowest": 10, "low": 100, "middle": 1_000}
"""The priorities of the pods that run."""
ABOVE, BELOW = {"high": 10_000}, {"bottom": 1}
"""Those of groups that wait: pods go for the first, none for the second."""
_CONF = {
    "actions": "enqueue, allocate, preempt, backfill",
    "tiers": [
        {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
        {
            "plugins": [
                {
                    "name": "deviceshare",
                    "arguments": {"deviceshare.VGPUEnable": True, "deviceshare.AscendHAMiVNPUEnable": True},
                }
            ]
        },
    ],
}


class Waiting(NamedTuple):
    """A group that waits: its name, how many pods it has, the cards of each, and its priority class.

    ``allowed``: how many pods of the cluster a PodDisruptionBudget lets go, None without one.
    """

    name: str
    pods: int
    cards: int
    level: str
    allowed: int | None = None


WAITING = (
    Waiting("one card", 1, 1, "high"),
    Waiting("eight cards", 1, 8, "high"),
    Waiting("gang of 64", 64, 1, "high"),
    Waiting("no pod may be evicted", 1, 1, "bottom"),
    Waiting("budget allows none", 1, 1, "high", allowed=0),
    Waiting("budget allows one", 1, 8, "high", allowed=1),
)


def facts(nodes: int, cards: int, seed: int, cards_of: CardType) -> Iterator[tuple[str, AnyFact]]:
    """Yield key and fact of each object of the cluster, the waiting groups last."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    yield "config", ConfigFact(name="scheduler", text=json.dumps(_CONF), source="conf")
    yield "devices", ConfigFact(name="devices", text=json.dumps(_DEVICES), source="devices")
    offered = {cards_of.resource: _SLOTS * cards} if cards_of.offered else {}
    for name, value in (LEVELS | ABOVE | BELOW).items():
        yield f"class {name}", PriorityClassFact(name=name, value=value)
    for number in range(nodes):
        name = f"node-{number:05d}"
        yield (
            f"node {name}",
            NodeFact(
                name=name,
                cards=make_cards(name, cards, cards_of.model, cards_of.memory, _SLOTS, mode=cards_of.mode),
                allocatable={"cpu": 256_000, "memory": 2**41, "pods": 1_000, **offered},
            ),
        )
        yield from _pods_of(name, cards, random, cards_of)
    for each in WAITING:
        yield from _group(each.name, each.level, each.pods)
        for at in range(each.pods):
            fact = _pod(f"{each.name}-{at}", each.name, each.level, cards_of, range(each.cards))
            yield f"pod {fact.uid}", fact


def budget(allowed: int | None) -> tuple[str, AnyFact]:
    """Return key and fact of the PodDisruptionBudget of all pods, or of its deletion."""
    fact = Gone() if allowed is None else PodDisruptionBudgetFact(key="bench/all", selector=(), allowed=allowed)
    return "budget", fact


def _pods_of(node: str, cards: int, random: Random, cards_of: CardType) -> Iterator[tuple[str, AnyFact]]:
    """Yield the pods of a node, one for each card: every fifth node runs a gang, on the others cards are shared."""
    level = random.choice([*LEVELS])
    if random.random() < 0.2:
        yield from _group(f"{node}-gang", level, cards)
        for card in range(cards):
            fact = _pod(f"{node}-{card}", f"{node}-gang", level, cards_of, (card,), node)
            yield f"pod {fact.uid}", fact
        return
    pods, card = 0, 0
    while card < cards:
        # Two cards of one pod and two pods of one card keep the number of pods.
        double = random.random() < 0.2 and card + 1 < cards
        shapes: list[tuple[tuple[int, ...], int]] = [((card, card + 1) if double else (card,), _WHOLE)]
        if not double and pods < card:
            shapes = [((card,), half) for half in range(2)]
        for held, half in shapes:
            name, level = f"{node}-{card}-{pods}", random.choice([*LEVELS])
            yield from _group(name, level, 1)
            fact = _pod(name, name, level, cards_of, held, node, half)
            yield f"pod {fact.uid}", fact
            pods += 1
        card += len(shapes[0][0])


def _group(name: str, level: str, minimum: int) -> Iterator[tuple[str, AnyFact]]:
    key = GroupKey(f"bench/{name}")
    yield f"group {name}", PodGroupFact(
        key=key, uid=f"uid-{name}", min_member=minimum, queue="default", priority_class=level, phase="Running",
        admitted=True,
    )  # fmt: skip


def _pod(
    name: str, group: str, level: str, cards_of: CardType, held: range | tuple[int, ...], node: str = "",
    half: int = _WHOLE,
) -> PodFact:  # fmt: skip
    """Return a pod that has these cards of its node, or waits for so many; ``half``: which half of each."""
    memory = cards_of.memory if half == _WHOLE else cards_of.memory // 2
    detail = cards_of.whole if half == _WHOLE else cards_of.half.format(half)
    devices = tuple(DeviceGrant(f"{node}-{card}", card, memory, 0, detail) for card in held)
    grants = (ContainerGrant("main", 0, cards_of.family, devices),)
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
        ask=make_request({cards_of.resource: len(held), cards_of.memory_resource: memory, "cpu": 1_000}),
        held=grants if node else (),
        signed=bool(node),
    )
