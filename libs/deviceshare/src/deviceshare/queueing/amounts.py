"""The resource amounts of pods and of the cluster, by the resource names that users write in a Queue.

Native resources count as requested, and each pod counts as one of ``pods``: as in Volcano, ``pods`` affects shares but
is never limited (pkg/scheduler/api/resource_info.go, IsIgnoredScalarResource). Devices count under the extended
resources by which pods request them: ``volcano.sh/vgpu-number`` is the number of vGPUs, ``volcano.sh/vgpu-memory``
their total MiB, and so on. Until a node is chosen, a request for the whole memory of cards, or for a percentage, counts
as if it got the largest cards of its models that a node has.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from deviceshare.conf import SchedulerConf
from deviceshare.families import (
    BY_NAME,
    FAMILIES,
    CardDemand,
    CardNames,
    Demand,
    Family,
    FamilyError,
    calling,
    device_resources,
    types_accepted,
)
from deviceshare.families.dra import is_of_class
from deviceshare.families.vgpu.wire import MIG
from deviceshare.model import INIT, WHOLE, Card, ContainerGrant, InputError, NodeFact, PodRequest, ResourceAmounts
from deviceshare.state import PODS, pod_resources

_CONCURRENT = -1
_MAX_KNOWN = 4096
_Profile = tuple[tuple[str, str, int], ...]
"""The cards of a node: mode, type and MiB of each, the largest first."""


class _Counted(NamedTuple):
    """What a pod counts before its cards are known."""

    amounts: ResourceAmounts
    least: ResourceAmounts
    """Its amounts with the smallest cards that it may get."""
    depends_on_cards: bool
    of_whole: tuple[tuple[str, frozenset[str]], ...]
    """The families of which it may have whole cards of a node instead; then it has nothing under these names."""


class Counting:
    """Counts the resources of the cluster and of pods under one configuration."""

    def __init__(self, conf: SchedulerConf, nodes: Iterable[NodeFact] = ()) -> None:
        self._conf = conf
        self._by_card = conf.extensions.card_quotas
        self._devices = device_resources(conf) if self._by_card else _uncounted(conf)
        self._families: defaultdict[str, list[Family]] = defaultdict(list)
        """The families that allocate cards of each mode."""
        for family in FAMILIES:
            for mode in family.modes:
                self._families[mode].append(family)
        self._known = lru_cache(_MAX_KNOWN)(self._read)
        """:meth:`_read`, cached for the most recently used requests."""
        self._of_node: dict[str, tuple[NodeFact, Mapping[str, int], _Profile]] = {}
        """Each node, its resources, and its cards."""
        self._nodes_of: Counter[_Profile] = Counter()
        """How many nodes have these cards."""
        self.profiles: frozenset[_Profile] = frozenset()
        """The different nodes by their cards; replaced by a new set when it changes."""
        self.total: Counter[str] = Counter()
        for node in nodes:
            self.set_node(node)

    @property
    def nodes(self) -> list[NodeFact]:
        """The counted nodes."""
        return [node for node, _, _ in self._of_node.values()]

    def limit(self, name: str) -> int | None:
        """Return the cluster's amount of a resource; None if it is not counted.

        No node has some of the resources by which devices are requested (``volcano.sh/vgpu-memory-percentage``), and
        the devices of a class are not counted.
        """
        amount = self.total.get(name, 0)
        return None if not amount and (name in self._devices or is_of_class(name)) else amount

    def set_node(self, node: NodeFact) -> bool:
        """Add or update a node; returns whether the total may have changed."""
        before = self._of_node.get(node.name)
        if before is not None and before[0].cards == node.cards and before[0].allocatable == node.allocatable:
            self._of_node[node.name] = (node, *before[1:])
            return False
        gone = self._remove(node.name)
        _, has, profile = self._of_node[node.name] = (node, *self._count(node))
        self.total.update(has)
        self._nodes_of[profile] += 1
        self._update_profiles(gone, profile)
        return True

    def remove_node(self, name: str) -> bool:
        """Remove a node; returns whether it was counted."""
        gone = self._remove(name)
        self._update_profiles(gone)
        return gone is not None

    def _remove(self, name: str) -> _Profile | None:
        """Remove a node; return its cards, None if it was not counted."""
        gone = self._of_node.pop(name, None)
        if gone is None:
            return None
        self.total.subtract(gone[1])
        self._nodes_of[gone[2]] -= 1
        return gone[2]

    def _update_profiles(self, *touched: _Profile | None) -> None:
        if any(each is not None and (each in self.profiles) != (self._nodes_of[each] > 0) for each in touched):
            self._nodes_of = +self._nodes_of
            self.profiles = frozenset(self._nodes_of)
            self._known.cache_clear()

    def _count(self, node: NodeFact) -> tuple[Mapping[str, int], _Profile]:
        has = Counter({name: amount for name, amount in node.allocatable.items() if name not in self._devices})
        cards = node.cards if self._by_card else ()
        # The cards of a node are mostly alike.
        alike = Counter(Card("", 0, each.slots, each.memory, each.cores, each.type, mode=each.mode) for each in cards)
        for card, number in alike.items():
            counted: dict[str, int] = {}
            for family in self._families.get(card.mode, ()):
                names = family.card_names(card, self._conf)
                counted |= {names.number: 1 if names.whole else card.slots, names.cores: card.cores}
                counted[names.memory] = card.memory
            for name, amount in counted.items():
                if name:
                    has[name] += number * amount
        profile = sorted(((card.mode, card.type, card.memory) for card in cards), key=lambda card: -card[2])
        return has, _shared(tuple(profile))

    def _memory(self, cards: CardDemand, *, largest: bool, modes: frozenset[str], demand: Demand) -> int:
        """Return the most or the least MiB that a container may get of a node, of the cards that the pod accepts.

        The largest instance of a card in MIG mode may be smaller than the card: the least is not known.
        """
        names = sorted({card_type for profile in self.profiles for _, card_type, _ in profile})
        accepted = types_accepted(demand.use_types, demand.nouse_types, names, parts=demand.type_parts)
        types = {name for name, accepts in zip(names, accepted, strict=True) if accepts}
        if demand.card_type:
            types &= {demand.card_type}
        found: list[int] = []
        for profile in self.profiles:
            sizes = [
                memory if largest or mode != MIG else 0
                for mode, card_type, memory in profile
                if mode in modes and card_type in types
            ]
            if len(sizes) >= cards.count:
                percent = cards.memory_percentage or 100
                chosen = sorted(sizes, reverse=largest)[: cards.count]
                found.append(sum(memory * percent // 100 for memory in chosen))
        return (max if largest else min)(found, default=0)

    def asked(self, request: PodRequest) -> ResourceAmounts:
        """Return the amounts of a waiting pod."""
        return self._known(request).amounts

    def least(self, request: PodRequest) -> ResourceAmounts:
        """Return the amounts that a pod has at least, whichever cards it gets."""
        return self._known(request).least

    def depends_on_cards(self, request: PodRequest) -> bool:
        """Return whether the amounts of a pod depend on the cards that it gets."""
        return self._known(request).depends_on_cards

    def held(self, request: PodRequest, grants: Iterable[ContainerGrant]) -> ResourceAmounts:
        """Return the amounts of a pod with these grants."""
        amounts, _, depends, of_whole = self._known(request)
        if not depends:
            return amounts
        grants = tuple(grants)
        found = _with_memory(amounts, grants, self._conf)
        without = {
            name for family, names in of_whole if all(grant.family != family for grant in grants) for name in names
        }
        return tuple((name, amount) for name, amount in found if name not in without) if without else found

    def claimed(self, resources: ResourceAmounts, grants: Iterable[ContainerGrant]) -> ResourceAmounts:
        """Return the amounts of a pod of which only the resources and the devices of its claim are known."""
        total = Counter({name: amount for name, amount in resources if name not in self._devices})
        total[PODS] = 1
        by_stage: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for grant in grants if self._by_card else ():
            family = BY_NAME.get(grant.family)
            if family is None:
                continue
            names = family.card_names(Demand(grant.family, ()), self._conf)
            largest = max(
                (card[2] for profile in self.profiles for card in profile if card[0] in family.modes), default=0
            )
            stage = by_stage[grant.position if grant.stage == INIT else _CONCURRENT]
            for device in grant.devices:
                stage[names.number] += 1
                stage[names.memory] += largest if device.memory == WHOLE else device.memory
                stage[names.cores] += device.cores
        total.update(_largest(by_stage))
        return _sorted(total)

    def _read(self, request: PodRequest) -> _Counted:
        total = Counter(dict(pod_resources(request, self._devices)))
        total[PODS] = 1
        least = total.copy()
        depends = False
        of_whole: list[tuple[str, frozenset[str]]] = []
        answered: set[str] = set()
        for family in FAMILIES if self._by_card else ():
            request_group = family.answers or family.name
            if request_group in answered or family.flag not in self._conf.families:
                continue
            try:
                with calling(family.name, "demand"):
                    demand = family.demand(request, self._conf)
            except (InputError, FamilyError):
                # The allocator rejects the pod.
                continue
            if demand is not None:
                answered.add(request_group)
                names = family.card_names(demand, self._conf)
                modes = frozenset[str]().union(
                    *(
                        each.modes
                        for each in FAMILIES
                        if each is family or (not demand.mode and each.answers == request_group)
                    )
                )
                memory = partial(self._memory, modes=modes, demand=demand)
                total.update(_of_demand(demand, names, partial(memory, largest=True)))
                at_least = _of_demand(demand, names, partial(memory, largest=False))
                if demand.or_whole:
                    at_least = {name: at_least[name] for name in at_least.keys() - {names.memory, names.cores}}
                least.update(at_least)
                depends |= demand.or_whole or (
                    bool(names.memory) and any(cards.memory_percentage or not cards.memory for cards in demand.cards)
                )
                if demand.or_whole:
                    of_whole.append((family.name, frozenset({names.memory, names.cores})))
        return _Counted(_sorted(total), _sorted(least), depends, tuple(of_whole))


@lru_cache(maxsize=_MAX_KNOWN)
def _shared(profile: _Profile) -> _Profile:
    """Return one object for nodes with equal cards."""
    return profile


def _sorted(amounts: Mapping[str, int]) -> ResourceAmounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _uncounted(conf: SchedulerConf) -> frozenset[str]:
    """Return the resources that Volcano counts in no queue: memory and cores of Ascend chips shared by HAMi.

    Source: Volcano pkg/scheduler/api/devices/ascend/hami (GetIgnoredDevices).
    """
    family = BY_NAME["hami-vnpu"]
    return family.resources(conf) if family.flag in conf.families else frozenset()


def _of_demand(demand: Demand, names: CardNames, memory: Callable[[CardDemand], int]) -> dict[str, int]:
    """Return the maximum of the largest init container and the sum of the other containers, by resource.

    ``memory`` returns the MiB of a container that requests whole cards or a percentage.
    """
    by_stage: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for cards in demand.cards:
        in_part = cards.memory and not cards.memory_percentage
        stage = by_stage[cards.position if cards.stage == INIT else _CONCURRENT]
        stage[names.number] += cards.count
        stage[names.memory] += cards.count * cards.memory if in_part else memory(cards) if names.memory else 0
        stage[names.cores] += cards.count * cards.cores
    return _largest(by_stage)


def _with_memory(amounts: ResourceAmounts, grants: Iterable[ContainerGrant], conf: SchedulerConf) -> ResourceAmounts:
    """Return the amounts with the granted memory in place of the estimated memory."""
    given: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for grant in grants:
        family = BY_NAME.get(grant.family)
        names = family.card_names(Demand(grant.family, ()), conf) if family is not None else CardNames()
        if not names.memory or any(device.memory == WHOLE for device in grant.devices):
            continue
        stage = grant.position if grant.stage == INIT else _CONCURRENT
        given[stage][names.memory] += sum(device.memory for device in grant.devices)
    return tuple(sorted((dict(amounts) | _largest(given)).items()))


def _largest(by_stage: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """Return the largest amount of each resource; '' is no resource."""
    found: dict[str, int] = {}
    for counted in by_stage.values():
        found |= {name: max(amount, found.get(name, 0)) for name, amount in counted.items() if name}
    return found
