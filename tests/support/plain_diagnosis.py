"""Why a pod is not feasible, one node and one card at a time, in plain Python: no code of the allocator.

A second implementation of the documented rules for vGPUs (hami-core, MPS, MIG), gpu-share, gpu-number and resources
of nodes, for comparison with :meth:`deviceshare.allocation.Allocator.why_not`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deviceshare.model import Card, ContainerGrant, DeviceGrant, NodeFact, PodRequest
from support.builders import CORES, MEMORY, NUMBER, PERCENTAGE, SHARE, WHOLE_CARDS
from support.mig import A30, A100_40

GEOMETRIES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    A30: {"group1": (6144,) * 4, "group2": (12288,) * 2, "group3": (24576,)},
    A100_40: {
        "group1": (5120,) * 7,
        "group2": (10240, 10240, 10240, 5120),
        "group3": (20480, 20480),
        "group4": (40960,),
    },
}
VGPU_MODES = ("hami-core", "mps", "mig")
"""In the order in which the families are asked."""
STAGES = (
    "NodeNotReady", "NodeUnschedulable", "TaintNotTolerated", "NodeAffinityMismatch", "TooManyPods", "ResourceUnknown",
    "InsufficientResource", "CardNotFound", "ModeNotFit", "CardNotHealth", "CardTypeMismatch", "CardUuidMismatch",
    "CardMigGeometryNotFound", "NodeInsufficientDevice",
)  # fmt: skip

_OF_EVERY_CARD = ("ModeNotFit", "CardNotHealth", "CardTypeMismatch", "CardUuidMismatch")
"""Checks for which all cards of a node count, also those that fail an earlier check."""


class Held(NamedTuple):
    """What a pod holds on a node."""

    node: str
    uid: str
    grants: tuple[ContainerGrant, ...]
    resources: tuple[tuple[str, int], ...]


class Rule(NamedTuple):
    """One check of a node's cards: ``fails`` says whether a card does; ``free`` is its free amount, of ``asked``."""

    code: str
    fails: Callable[[Card], bool]
    asked: int = 0
    free: Callable[[Card], int] | None = None
    about: str = ""


class Key(NamedTuple):
    """What is counted together: a code, of several with one code what it is about, requested amount, needed cards."""

    code: str
    about: str
    asked: int
    needed: int


class Failure(NamedTuple):
    """The first failing check of one node, with its numbers."""

    code: str
    asked: int = 0
    free: int = 0
    needed: int = 0
    left: int = 0
    considered: int = 0
    excluded: int = 0
    cards: int = 0
    about: str = ""


class Counted(NamedTuple):
    """A failure counted over nodes."""

    nodes: int
    nearest: str
    free: int
    left: int
    considered: int
    excluded: int
    cards: int


class Used:
    """What is in use of one card: MiB, percent, containers, MIG instances (``group-position``)."""

    def __init__(self, card: Card, held: Sequence[Held], node: str) -> None:
        devices = [
            device
            for each in held
            if each.node == node
            for grant in each.grants
            for device in grant.devices
            if device.id == card.id
        ]
        self.instances = [device.detail for device in devices if device.detail]
        self.memory = sum(self._size(card, device) for device in devices)
        self.cores = sum(device.cores for device in devices)
        self.slots = len(devices)

    @staticmethod
    def _size(card: Card, device: DeviceGrant) -> int:
        if not device.detail:
            return device.memory
        group, _, position = device.detail.partition("-")
        return GEOMETRIES[card.type][group][int(position)]


class PlainDiagnosis:
    """The nodes of a cluster, and what is held on them."""

    def __init__(self, nodes: Sequence[NodeFact], held: Sequence[Held], policy: str, *, whole_on_shared: bool) -> None:
        self.nodes, self.held, self.policy = sorted(nodes, key=lambda each: each.name), held, policy
        self.whole_on_shared = whole_on_shared

    def first_failing(self, what: PodRequest) -> dict[Key, Counted]:
        """Return the first failing check of each node, counted over nodes."""
        found: defaultdict[Key, list[tuple[str, Failure]]] = defaultdict(list)
        for node in self.nodes:
            failure = self.failure(node, what)
            assert failure is not None, f"{node.name} is feasible"
            found[Key(failure.code, failure.about, failure.asked, failure.needed)].append((node.name, failure))
        counted = {key: self._count(each) for key, each in found.items()}
        # Where no amount is missing and no card either, no node is nearer than another.
        about_amounts = ("InsufficientResource", "ResourceUnknown", "NodeInsufficientDevice", "TooManyPods")
        return {
            key: each if key.needed or key.code in about_amounts else each._replace(nearest="")
            for key, each in counted.items()
        }

    @staticmethod
    def _count(failures: Sequence[tuple[str, Failure]]) -> Counted:
        nearest, best = failures[0]
        for name, each in failures:
            if (each.left, each.free) > (best.left, best.free):
                nearest, best = name, each
        return Counted(
            nodes=len(failures), nearest=nearest, free=best.free, left=best.left, considered=best.considered,
            excluded=sum(each.excluded for _, each in failures), cards=sum(each.cards for _, each in failures),
        )  # fmt: skip

    def failure(self, node: NodeFact, what: PodRequest) -> Failure | None:
        """Return the first check that a node fails, in kube-scheduler's order; None if it is feasible."""
        return self._state(node, what) or self._amounts(node, what) or self._devices(node, what)

    @staticmethod
    def _state(node: NodeFact, what: PodRequest) -> Failure | None:
        if not node.ready:
            return Failure("NodeNotReady")
        if node.unschedulable:
            return Failure("NodeUnschedulable")
        for taint in node.taints:
            if not any(toleration.key == taint.key for toleration in what.tolerations):
                return Failure("TaintNotTolerated")
        if any(node.labels.get(key) != value for key, value in what.node_selector):
            return Failure("NodeAffinityMismatch")
        return None

    def _amounts(self, node: NodeFact, what: PodRequest) -> Failure | None:
        here = [each for each in self.held if each.node == node.name]
        if len(here) >= node.allocatable["pods"]:
            return Failure("TooManyPods")
        devices = {NUMBER, MEMORY, CORES, PERCENTAGE, SHARE, WHOLE_CARDS}
        asked: defaultdict[str, int] = defaultdict(int)
        for container in what.containers:
            for name, amount in container.resources:
                if name not in devices:
                    asked[name] += amount
        unknown = [name for name in asked if not any(each.allocatable.get(name) for each in self.nodes)]
        for name in (*sorted(unknown), *sorted(set(asked) - set(unknown))):
            free = node.allocatable.get(name, 0) - sum(dict(each.resources).get(name, 0) for each in here)
            if free < asked[name]:
                code = "ResourceUnknown" if name in unknown else "InsufficientResource"
                return Failure(code, asked[name], max(free, 0))
        return None

    def _devices(self, node: NodeFact, what: PodRequest) -> Failure | None:
        used = {card.id: Used(card, self.held, node.name) for card in node.cards}
        first = dict(what.containers[0].resources)
        if SHARE in first or WHOLE_CARDS in first:
            return self._gpu_plugin(node, used, what)
        if not {NUMBER, MEMORY, CORES, PERCENTAGE} & set(first):
            return None
        mode = dict(what.annotations).get("volcano.sh/vgpu-mode")
        here = [each for each in VGPU_MODES if mode in (None, each) and any(card.mode == each for card in node.cards)]
        failures = [self._vgpu(node, dict(used), what, each) for each in here or [mode or VGPU_MODES[0]]]
        if None in failures:
            return None
        # Of several families the one counts that got furthest.
        return max((each for each in failures if each is not None), key=lambda each: _stage(each.code))

    def _gpu_plugin(self, node: NodeFact, used: Mapping[str, Used], what: PodRequest) -> Failure | None:
        cards = [card for card in node.cards if card.mode == "gpu-share"]
        if not cards:
            return Failure("CardNotFound")
        rules = [Rule("CardNotHealth", lambda card: not card.healthy), *_wishes(what)]
        limits = dict(what.containers[0].resources)
        if memory := limits.get(SHARE):
            rules.append(
                Rule(
                    "CardInsufficientMemory", lambda card: card.memory - used[card.id].memory < memory, memory,
                    lambda card: card.memory - used[card.id].memory,
                )
            )  # fmt: skip
            return _first(rules, cards, 1)
        rules.append(Rule("ModeNotFit", lambda card: card.memory > 0 and not self.whole_on_shared))
        count = limits[WHOLE_CARDS]
        in_use = [card for card in cards if used[card.id].slots or used[card.id].memory]
        if failure := _first(rules, cards, count):
            return failure
        usable = [card for card in cards if not any(rule.fails(card) for rule in rules)]
        free = len([card for card in usable if card not in in_use])
        taken = len(usable) - free
        return Failure("NodeInsufficientDevice", count, free, cards=taken) if free < count else None

    def _vgpu(self, node: NodeFact, used: dict[str, Used], what: PodRequest, mode: str) -> Failure | None:
        registered = [card for card in node.cards if card.mode in VGPU_MODES]
        if not registered:
            return Failure("CardNotFound")
        of_mode = [card for card in registered if card.mode == mode]
        if not of_mode:
            return Failure("ModeNotFit", needed=_number(what, 0), cards=len(registered))
        for at in range(len(what.containers)):
            limits = dict(what.containers[at].resources)
            count = _number(what, at)
            rules = [Rule("CardNotHealth", lambda card: not card.healthy), *_wishes(what)]
            if "volcano.sh/vgpu-mode" in dict(what.annotations):
                rules.insert(0, Rule("ModeNotFit", lambda card: card.mode != mode))
            if mode == "mig":
                rules.append(Rule("CardMigGeometryNotFound", lambda card: card.type not in GEOMETRIES))
            room = _room(limits, used, mode)
            failure = _of_vgpu(rules, room, registered, of_mode, count)
            if failure is not None:
                return failure
            able = [card for card in of_mode if not any(rule.fails(card) for rule in (*rules, *room))]
            for card in self._picked(able, used, count):
                mine = Used(card, (), "")
                mine.memory = used[card.id].memory + _memory(limits, card)
                mine.cores, mine.slots = used[card.id].cores + limits.get(CORES, 0), used[card.id].slots + 1
                used[card.id] = mine
        return None

    def _picked(self, able: Sequence[Card], used: Mapping[str, Used], count: int) -> Sequence[Card]:
        match self.policy:
            case "binpack":
                return sorted(able, key=lambda card: -used[card.id].memory)[:count]
            case "spread":
                return sorted(able, key=lambda card: used[card.id].slots)[:count]
            case _:
                return list(reversed(able))[:count]


def _number(what: PodRequest, at: int) -> int:
    return dict(what.containers[at].resources).get(NUMBER, 1)


def _memory(limits: Mapping[str, int], card: Card) -> int:
    if percentage := limits.get(PERCENTAGE):
        return card.memory * percentage // 100
    return limits.get(MEMORY) or card.memory


def _wishes(what: PodRequest) -> list[Rule]:
    wishes, rules = dict(what.annotations), []
    if model := wishes.get("nvidia.com/use-gputype"):
        rules.append(Rule("CardTypeMismatch", lambda card: model not in card.type.split("-")))
    if ids := wishes.get("volcano.sh/vgpu-use-gpuuuid"):
        rules.append(Rule("CardUuidMismatch", lambda card: card.id not in ids.split(",")))
    if indexes := wishes.get("volcano.sh/gpu-index"):
        rules.append(Rule("CardUuidMismatch", lambda card: str(card.index) not in indexes.split(","), about="index"))
    return rules


def _room(limits: Mapping[str, int], used: Mapping[str, Used], mode: str) -> list[Rule]:
    cores = limits.get(CORES, 0)
    rules = [
        Rule("CardTimeSlicingExhausted", lambda card: used[card.id].slots >= card.slots),
        Rule(
            "CardInsufficientCore", lambda card: used[card.id].cores + cores > 100, cores,
            lambda card: 100 - used[card.id].cores,
        ),
        Rule("ExclusiveDeviceAllocateConflict", lambda card: cores == 100 and used[card.id].slots > 0),
        Rule("CardComputeUnitsExhausted", lambda card: cores == 0 and used[card.id].cores >= 100),
    ]  # fmt: skip
    in_percent = limits.get(PERCENTAGE) or (0 if limits.get(MEMORY) else 100)
    asked = in_percent or limits[MEMORY]

    def shown(amount: Callable[[Card], int]) -> Callable[[Card], int]:
        return lambda card: 100 * amount(card) // card.memory if in_percent else amount(card)

    if mode != "mig":
        free = lambda card: card.memory - used[card.id].memory  # noqa: E731
        rules.append(
            Rule("CardInsufficientMemory", lambda card: free(card) < _memory(limits, card), asked, shown(free))
        )
        return rules
    largest = lambda card: max(size for sizes in GEOMETRIES[card.type].values() for size in sizes)  # noqa: E731
    rest = lambda card: max(_free_instances(card, used[card.id]), default=0)  # noqa: E731
    needed = lambda card: _instance(limits, card)  # noqa: E731
    mixed_up = lambda card: _is_mixed_up(used[card.id])  # noqa: E731
    return [
        *rules,
        Rule("CardMigInstancesConflict", mixed_up),
        Rule(
            "CardInsufficientMemory", lambda card: not mixed_up(card) and largest(card) < needed(card), asked,
            shown(largest),
        ),
        Rule(
            "CardMigTopologyInfeasible",
            lambda card: not mixed_up(card) and rest(card) < needed(card) <= largest(card), asked, shown(rest),
        ),
    ]  # fmt: skip


def _instance(limits: Mapping[str, int], card: Card) -> int:
    """Return the MiB of the smallest sufficient instance; a whole card is the instance that is a geometry by itself."""
    memory = _memory(limits, card)
    if limits.get(PERCENTAGE) == 100 or not (limits.get(PERCENTAGE) or limits.get(MEMORY)):
        return min(memory, max(sizes[0] for sizes in GEOMETRIES[card.type].values() if len(sizes) == 1))
    return memory


def _is_mixed_up(used: Used) -> bool:
    return len({instance.partition("-")[0] for instance in used.instances}) > 1


def _free_instances(card: Card, used: Used) -> list[int]:
    if not used.instances:
        return [size for sizes in GEOMETRIES[card.type].values() for size in sizes]
    group = used.instances[0].partition("-")[0]
    taken = {int(instance.partition("-")[2]) for instance in used.instances}
    return [size for at, size in enumerate(GEOMETRIES[card.type][group]) if at not in taken]


def _of_vgpu(
    rules: Sequence[Rule], room: Sequence[Rule], registered: Sequence[Card], of_mode: Sequence[Card], count: int
) -> Failure | None:
    usable = [card for card in of_mode if not any(rule.fails(card) for rule in rules)]
    failure = _first(rules, of_mode, count)
    if failure is not None and failure.code == "ModeNotFit":
        return failure._replace(cards=len(registered) - len(of_mode))
    if failure is not None:
        return failure
    if len(usable) < count:
        return Failure("NodeInsufficientDevice", count, len(usable))
    return _first([*rules, *room], of_mode, count)


def _first(rules: Sequence[Rule], cards: Sequence[Card], count: int) -> Failure | None:
    """Exclude cards rule by rule, until fewer than ``count`` are left; none, of a node that has fewer cards."""
    least = count if len(cards) >= count else 1
    left = list(cards)
    for number, rule in enumerate(rules):
        considered = left
        left = [card for card in considered if not rule.fails(card)]
        if len(left) >= least:
            continue
        free = 0
        if rule.free is not None:
            amounts = sorted((rule.free(card) for card in considered if rule.fails(card)), reverse=True)
            missing = max(1, count - len(left))
            free = max(0, amounts[min(missing, len(amounts)) - 1])
        # A card counts for a check of room only if it passes the checks that do not depend on usage.
        earlier = [each for each in rules[:number] if each.code in STAGES]
        counts = [card for card in cards if not any(each.fails(card) for each in earlier)]
        failing = [card for card in (cards if rule.code in _OF_EVERY_CARD else counts) if rule.fails(card)]
        asked = rule.asked if rule.free is not None else 0
        return Failure(
            code=rule.code, asked=asked, free=free, needed=count, left=len(left), considered=len(considered),
            excluded=len(cards) - len(considered), cards=len(failing), about=rule.about,
        )  # fmt: skip
    return None


def _stage(code: str) -> int:
    return STAGES.index(code) if code in STAGES else len(STAGES)
