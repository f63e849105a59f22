"""Small random clusters from a seed, with cards of all families and changing pods.

``fast`` is one allocator that lives through it all. ``plain`` is the same decision without anything remembered, one
node at a time: a new allocator for each node, in which all others are cordoned, and the best by the documented order.
"""

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from deviceshare.allocation import Allocator, Placement, Ties
from deviceshare.conf import BUILT_IN, FIRST_FIT, SchedulerConf
from deviceshare.conf.known import family_flags
from deviceshare.conf.model import BEST_FIT
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf, VnpuTemplate
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import Card, NodeFact, PodRequest
from msgspec.structs import replace
from support.builders import MEMORY, ask, card, container, node, share, share_cards, vgpu, whole
from support.mig import A30, A100_40, DOCS, mig_card

CHIP = VnpuChip(
    name="910X", word="Ascend910X", resource="huawei.com/Ascend910X", memory_resource="huawei.com/Ascend910X-memory",
    core_resource="huawei.com/Ascend910X-core", memory_allocatable=96, memory_capacity=100, ai_cores=20, ai_cpus=7,
    templates=(VnpuTemplate("quarter", 24, 5, 1), VnpuTemplate("half", 48, 10, 3)),
)  # fmt: skip
DEVICES = BUILT_IN.having(DOCS.section(VgpuConf), VnpuConf(chips=(CHIP,)))
SHARED = {"huawei.com/vnpu-mode": "hami-core"}
MIG_NODE, NPU_NODE = 1, 3
"""Sorts of nodes."""
MODELS = ("NVIDIA-A10", "NVIDIA-A100")


class Decision(NamedTuple):
    """What is compared: the node, what is given there, how good it is, on how many nodes it fits."""

    node: str
    grants: object
    score: float
    feasible: int


def conf_of(chance: Random) -> SchedulerConf:
    """Return a configuration without scores of nodes: these compare nodes with each other."""
    return SchedulerConf(
        families=frozenset(family_flags()),
        policy=chance.choice(("", "binpack", "spread")),
        weight=chance.choice((0, 1, 10)),
        mig_geometry=chance.choice((BEST_FIT, FIRST_FIT)),
        mixed_chips=chance.random() < 0.2,
        number_on_shared_nodes=chance.random() < 0.5,
        devices=DEVICES,
    )


def node_of(chance: Random, name: str, sort: int | None) -> NodeFact:
    """Return a node with cards of one family, or two on one node; of this ``sort`` unless None."""
    rooms: dict[str, int] = {"cpu": chance.choice((2000, 8000)), "pods": chance.randint(2, 8)}
    healthy = chance.random() > 0.1
    cards: list[Card] = []
    match chance.randrange(5) if sort is None else sort:
        case 0:
            cards = [
                card(
                    at, node=name, memory=chance.choice((50, 100)), slots=chance.randint(1, 3),
                    model=chance.choice(MODELS), healthy=healthy or at > 0,
                )
                for at in range(chance.randint(1, 4))
            ]  # fmt: skip
        case 1:
            model = chance.choice((A30, A100_40))
            cards = [mig_card(at, model, node=name, slots=chance.choice((2, 7))) for at in range(chance.randint(1, 3))]
            if chance.random() < 0.3:
                cards.append(card(len(cards), node=name, memory=20000))
            if chance.random() < 0.5:
                rooms[MEMORY] = chance.choice((5000, 10000, 20000, 90000))
        case 2:
            cards = list(share_cards(chance.randint(1, 4), memory=100, unhealthy=() if healthy else (0,)))
        case 3:
            word, mode = CHIP.word, chance.choice(("vnpu", "vnpu-hami-core"))
            networks = [chance.choice((-1, 0, 1)) if chance.random() < 0.3 else at // 2 for at in range(4)]
            cards = [
                Card(f"{name}D{at}", at, 4, 96, 100 if "core" in mode else 20, word, healthy or at > 0, mode, network)
                for at, network in enumerate(networks[: chance.randint(1, 4)])
            ]
            rooms[CHIP.resource] = chance.choice((0, 8, 8, 8))
            if chance.random() < 0.5:
                rooms[CHIP.memory_resource] = chance.choice((30, 60, 400))
    return node(name, cards, ready=chance.random() > 0.05, **rooms)


def ask_of(chance: Random, sort: int | None) -> PodRequest:
    """Return what some pod asks, of a cluster in which all nodes are of one ``sort``, or are not."""
    memory = CHIP.memory_resource
    npus = {CHIP.resource: chance.choice((1, 1, 1, 2)), memory: chance.choice((10, 24, 30, 48))}
    if npus[CHIP.resource] > 1:
        del npus[memory]
    if sort == MIG_NODE:
        # Many of these come to the same instance.
        number, amount = chance.choice((1, 1, 2)), chance.choice((4000, 4500, 5000, 6500, 9000, 18000, 19000))
        return vgpu(number, amount, chance.choice((None, None, 40)))
    if sort == NPU_NODE:
        return ask(container(chance.choice(("main", "app")), **npus))
    return chance.choice(
        (
            lambda: vgpu(chance.randint(1, 2), chance.choice((10, 30, 45)), chance.choice((None, 20, 50, 100))),
            lambda: vgpu(1, percentage=chance.choice((30, 100))),
            lambda: vgpu(1, chance.choice((5, 30)), containers=2),
            lambda: vgpu(1, 5, annotations={"nvidia.com/use-gputype": chance.choice(("A10", "A100"))}),
            lambda: vgpu(1, chance.choice((4000, 6000, 9000, 18000))),
            lambda: vgpu(2, 4000),
            lambda: vgpu(1, 5000, annotations={"volcano.sh/vgpu-mode": chance.choice(("mig", "hami-core"))}),
            lambda: share(chance.choice((20, 40, 70))),
            lambda: whole(chance.randint(1, 2)),
            lambda: ask(container(**npus)),
            lambda: ask(container(**npus), container("second", **npus)),
            lambda: ask(container(**{CHIP.resource: 1, memory: 20}), annotations=SHARED),
            lambda: ask(container(cpu=chance.choice((500, 3000)))),
            lambda: PodRequest(
                containers=(container(**{"volcano.sh/vgpu-memory": 20}),),
                init_containers=(container("first", **{"volcano.sh/vgpu-memory": 30}),),
            ),
        )
    )()


class Plain:
    """Decides with nothing remembered but how things stand."""

    def __init__(self, conf: SchedulerConf, ties: Ties) -> None:
        self.conf, self.ties = conf, ties
        self.nodes: dict[str, NodeFact] = {}
        self.held: dict[str, Placement] = {}

    def place(self, what: PodRequest) -> Decision | None:
        """Ask about each node by itself, and take the best."""
        found = [placement for name in self.nodes if (placement := self._only(name, what)) is not None]
        if not found:
            return None
        best = min(found, key=lambda each: (-self._worth(each), self._waste(each), self.ties.key(each.node)))
        return Decision(best.node, best.grants, best.score, len(found))

    def _only(self, name: str, what: PodRequest) -> Placement | None:
        alone = Allocator(self.conf)
        for each in self.nodes.values():
            alone.set_node(each if each.name == name else replace(each, unschedulable=True))
        for uid, placement in self.held.items():
            alone.take(uid, placement)
        return alone.place(what)

    def _worth(self, placement: Placement) -> float:
        rounded = math.floor(placement.score + 0.5) * self.conf.weight
        if self.conf.weight and self.conf.policy == "binpack":
            return rounded
        return rounded + placement.score * 1e-9

    def _waste(self, placement: Placement) -> int:
        """Return the MiB that MIG instances have beyond what is asked, which first-fit does not look at.

        Templates are no waste, as in Volcano.
        """
        if self.conf.mig_geometry == FIRST_FIT:
            return 0
        return sum(
            max(0, device.memory - device.asked)
            for grant in placement.grants
            if grant.family == "mig"
            for device in grant.devices
            if device.asked >= 0
        )


def decisions(seed: int, plain: bool) -> Iterator[Decision | None]:
    """Yield what is decided in one made-up life of a cluster; with ``plain`` both ways are asked, and have to agree."""
    chance = Random(seed)
    conf, ties = conf_of(chance), Ties(chance.choice((None, chance.randrange(100))))
    fast, slow = Allocator(conf, ties), Plain(conf, ties)
    sort = chance.choice((None, None, None, MIG_NODE, NPU_NODE))
    names = [f"n{at}" for at in range(chance.randint(1, 5))]

    def enter(name: str) -> None:
        slow.nodes[name] = node_of(chance, name, sort)
        fast.set_node(slow.nodes[name])

    def leave(name: str) -> None:
        if slow.nodes.pop(name, None):
            fast.remove_node(name)

    def give_back(_: str) -> None:
        if slow.held:
            uid = chance.choice(sorted(slow.held))
            assert fast.release(slow.held.pop(uid).node, uid)

    for name in names:
        enter(name)
    asks = [ask_of(chance, sort) for _ in range(4)]
    steps: tuple[Callable[[str], None], ...] = (enter, leave, give_back, give_back)
    for number in range(12):
        if chance.random() < 0.25:
            chance.choice(steps)(chance.choice(names))
        what = chance.choice(asks)
        placement = fast.place(what)
        found = None
        if placement is not None:
            found = Decision(placement.node, placement.grants, placement.score, placement.feasible)
        if plain and number % 4 == 3:
            expected = slow.place(what)
            assert found == expected, f"seed {seed}, step {number}: {what}\n{found}\n{expected}"
        yield found
        if placement is not None:
            fast.take(f"p{number}", placement)
            slow.held[f"p{number}"] = placement
