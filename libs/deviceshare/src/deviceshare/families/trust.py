"""Unsigned device annotations of bound pods, clamped to the pod's request.

Every user who may create a pod may write its annotations. Cards, memory and cores therefore count for the pod only up
to the requests of its containers. A pod without a request for a family holds no devices of the family.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.protocol import CardDemand, Family
from deviceshare.families.registry import FAMILIES, family_named
from deviceshare.model import Card, ContainerGrant, DeviceGrant, PodRequest, Problem, RequestError, is_native

_FIELD = "metadata.annotations"


MAX_DEMANDS = 2048
"""Demands that :class:`Demands` keeps."""
_Left = tuple[tuple[CardDemand, int], ...]


class Demanded(NamedTuple):
    """What a pod requests of families that answer the same request.

    ``left``: the demand of each container, and the number of its cards; None: the pod requests cards as a whole.
    """

    family: Family
    left: _Left | None


class Demands:
    """The demands of requests under one configuration, each found once: pods of one template share their request.

    All families count as enabled: what a bound pod holds does not depend on what is placed.
    """

    def __init__(self, conf: SchedulerConf) -> None:
        self._conf = replace(conf, families=frozenset(family.flag for family in FAMILIES))
        self._known: dict[tuple[str, int], tuple[PodRequest, Demanded]] = {}
        """By the answer and the id of the request, which is kept: the id belongs to no other one."""

    def of(self, answer: str, ask: PodRequest) -> Demanded:
        """Return what a pod requests of the families with an answer."""
        found = self._known.get((answer, id(ask)))
        if found is None:
            if len(self._known) >= MAX_DEMANDS:
                self._known.clear()
            families = [family for family in FAMILIES if answer in (family.answers, family.name)]
            found = self._known[answer, id(ask)] = (ask, _demanded(families, ask, self._conf))
        return found[1]

    def kinds(self, ask: PodRequest) -> frozenset[str]:
        """Return of which kinds a pod requests devices: the answers of families (:func:`kind_of`)."""
        kinds = {kind_of(family.name) for family in FAMILIES}
        return frozenset(kind for kind in kinds if self.of(kind, ask).left != ())


def kind_of(family: str) -> str:
    """Return what families have in common that answer the same request. Raises UnknownFamilyError."""
    found = family_named(family)
    return found.answers or found.name


def clamp_to_request(
    held: Sequence[ContainerGrant], ask: PodRequest, demands: Demands, cards: Mapping[str, Card], subject: str
) -> tuple[tuple[ContainerGrant, ...], tuple[Problem, ...]]:
    """Return the grants clamped to the pod's request, and a problem for each part that was removed.

    Args:
        held: the grants in the pod's annotations.
        ask: the pod's request.
        demands: the demands under the configuration, which names the resources.
        cards: the cards of the pod's node by id; the size of other cards is not known.
        subject: the pod, for messages.

    Raises:
        UnknownFamilyError: a grant names a family that is not registered.
    """
    by_answer: defaultdict[str, list[int]] = defaultdict(list)
    for at, grant in enumerate(held):
        by_answer[kind_of(grant.family)].append(at)
    kept: dict[int, ContainerGrant] = {}
    problems: list[Problem] = []
    for answer, places in by_answer.items():
        budget = _Budget(demands.of(answer, ask))
        named = [held[at] for at in places]
        given = budget.spend(named, cards)
        kept |= {at: grant for at, grant in zip(places, given, strict=True) if grant.devices}
        cut = [*_more(zip(named, given, strict=True))] if given != named else []
        if cut:
            problems.append(Problem(subject, _FIELD, ", ".join(cut), f"no more than the pod requests: {budget.text}"))
    return tuple(kept[at] for at in sorted(kept)), tuple(problems)


def _demanded(families: Sequence[Family], ask: PodRequest, conf: SchedulerConf) -> Demanded:
    for family in families:
        try:
            demand = family.demand(ask, conf)
        except RequestError:
            # Another scheduler bound the pod: it reads requests in another way.
            return Demanded(families[0], tuple(_by_count(ask)))
        if demand is not None:
            if any(cards.container for cards in demand.cards):
                return Demanded(family, tuple((cards, cards.count) for cards in demand.cards))
            return Demanded(family, None)
    return Demanded(families[0], ())


class _Budget:
    """What is left of the request of a pod for families that answer the same request."""

    def __init__(self, demanded: Demanded) -> None:
        self._family = demanded.family
        self._demanded = demanded.left
        self._left = list(demanded.left) if demanded.left is not None else None

    @property
    def text(self) -> str:
        """The request, for messages."""
        if self._demanded is None:
            return "all that it asks"
        return ", ".join(map(_shown, self._demanded)) or "nothing of the kind"

    def spend(self, grants: Sequence[ContainerGrant], cards: Mapping[str, Card]) -> list[ContainerGrant]:
        """Return each grant with the devices that the pod requests.

        A grant is matched with its own container first, then with any container that has cards left: some schedulers
        do not write the container of a device.
        """
        if self._left is None:  # The family distributes the cards by the request.
            return list(grants)
        given: list[list[DeviceGrant | None]] = [[None] * len(grant.devices) for grant in grants]
        for own in (True, False):
            for grant, devices in zip(grants, given, strict=True):
                for at, device in enumerate(grant.devices):
                    if devices[at] is None and (asked := self._take(grant, own=own)) is not None:
                        devices[at] = self._family.at_most(device, asked, cards.get(device.id))
        clamped = [tuple([device for device in devices if device is not None]) for devices in given]
        return [
            grant if devices == grant.devices else replace(grant, devices=devices)
            for grant, devices in zip(grants, clamped, strict=True)
        ]

    def _take(self, grant: ContainerGrant, *, own: bool) -> CardDemand | None:
        for at, (cards, count) in enumerate(self._left or ()):
            if count and (not own or (cards.stage, cards.position) == (grant.stage, grant.position)):
                assert self._left is not None
                self._left[at] = (cards, count - 1)
                return cards
        return None


def _by_count(ask: PodRequest) -> Iterator[tuple[CardDemand, int]]:
    """Yield for each container as many cards as the smallest amount of any device resource that it requests."""
    for stage, position, container in common.by_stage(ask):
        amounts = [amount for name, amount in container.resources if amount and not is_native(name)]
        if amounts:
            count = min(amounts)
            yield CardDemand(count, 0, 100, container=container.name, position=position, stage=stage), count


def _shown(left: tuple[CardDemand, int]) -> str:
    cards, _ = left
    memory = f"{cards.memory_percentage}% of the memory" if cards.memory_percentage else f"{cards.memory} of memory"
    each = "all of the memory" if not (cards.memory_percentage or cards.memory) else memory
    return f"{cards.container}: {cards.count} devices with {each} and {cards.cores} cores"


def _more(pairs: Iterable[tuple[ContainerGrant, ContainerGrant]]) -> Iterator[str]:
    """Yield the devices that were removed or reduced, with the amounts in the annotations."""
    for named, kept in pairs:
        rest = list(kept.devices)
        for device in named.devices:
            same = next((one for one in rest if one.id == device.id), None)
            if same is not None:
                rest.remove(same)
            if same != device:
                yield f"{device.id} {device.memory} {device.cores}"
