"""Whether a claim is one that the allocator could have made: a check for those who act on claims of others."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from deviceshare.allocation.card_request import CardRequest
from deviceshare.allocation.pod_class import PodClass
from deviceshare.conf import SchedulerConf
from deviceshare.families import CardCounter, CardDemand, Demand, ExpectedDemand, Family, Pick, calling, family_named
from deviceshare.model import Card, Claim, ClaimRequest, ContainerGrant, PodRequest
from deviceshare.state import CardShare, shares_by_card

MAX_REQUESTS = 4096
"""Requests that are kept as they were read; the least recently used one is read again."""
_NOTHING_EXPECTED = ExpectedDemand()
_DEVICES = (ClaimRequest(),)
"""In a request whose ResourceClaims the claim serves: which they are is not checked here."""


class ClaimCheck:
    """Compares claims with the requests of their pods, and with the cards of their nodes, under one configuration."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._conf = conf
        self._counter = CardCounter(conf)
        self._classes: OrderedDict[PodRequest, PodClass] = OrderedDict()

    def against_request(self, claim: Claim, request: PodRequest, cards: Mapping[str, Card]) -> str:
        """Return why the grants of a claim are not those of its pod's request, '' if they are.

        Exact: families give the grants for the claim's cards once more. It is not checked whether other cards would
        have been better, nor the pod's wishes for models and ids of cards.

        Args:
            claim: the claim.
            request: the request of the claim's pod.
            cards: the cards of the claim's node by id.

        Raises:
            FamilyError: a family has a bug.
        """
        if claim.devices:
            request = replace(request, devices=_DEVICES)
        pod_class = self._read(request)
        if pod_class.unschedulable:
            return "no claim: the pod's request cannot be placed"
        families = {grant.family for grant in claim.grants}
        expected: tuple[ContainerGrant, ...] = ()
        for card_request in pod_class.card_requests:
            answer = next((each for each in card_request.answers if each[0].name in families), None)
            if answer is None:
                if card_request.serves_without(cards.values()):
                    continue
                return f"devices of {_named(card_request)}, for which the claim has none"
            with calling(answer[0].name, "pick_of or grants"):
                found = self._grants(*answer, claim, cards)
            if isinstance(found, str):
                return found
            expected += found
        if expected == claim.grants:
            return ""
        return f"{_shown(expected)}, not {_shown(claim.grants)}"

    def against_cards(
        self, claim: Claim, cards: Mapping[str, Card], others: Mapping[str, Sequence[Sequence[CardShare]]]
    ) -> str:
        """Return why a claim does not fit on the cards of its node, '' if it does.

        ``others``: the shares of each other pod on each card, by the card's id. Raises FamilyError: a family has a bug.
        """
        families_by_card = {device.id: grant.family for grant in claim.grants for device in grant.devices}
        for identity, shares in shares_by_card(claim.grants).items():
            card = cards[identity]
            if not card.healthy:
                return f"healthy cards: {identity} is not"
            if card.cordoned:
                return f"cards that are not cordoned: {identity} is"
            pods = others.get(identity, ())
            used = self._counter.used(card, [*pods, shares])
            for name, amount, most in (
                ("MiB", used.memory, card.memory),
                ("cores", used.cores, card.cores),
                ("shares", used.slots, card.slots),
            ):
                if amount > most and pods:
                    return f"at most {most} {name} of card {identity} for all pods: with this claim they have {amount}"
                if amount > most:
                    return f"at most {most} {name} of card {identity}, not {amount}"
            family = family_named(families_by_card[identity])
            if family.accounting is None:
                continue
            with calling(family.name, "conflict"):
                lacking = family.accounting.conflict(card, [*pods, shares], self._conf)
            if lacking:
                return f"{lacking} on card {identity}, not {shares[0].device.detail}"
        return ""

    def _read(self, request: PodRequest) -> PodClass:
        pod_class = self._classes.get(request)
        if pod_class is None:
            pod_class = self._classes[request] = PodClass(request)
            pod_class.read(self._conf, 0)
            if len(self._classes) > MAX_REQUESTS:
                self._classes.popitem(last=False)
        return pod_class

    def _grants(
        self, family: Family, demand: Demand, claim: Claim, cards: Mapping[str, Card]
    ) -> tuple[ContainerGrant, ...] | str:
        """Return the grants that the family gives for the claim's cards, or why there are none."""
        ours = [grant for grant in claim.grants if grant.family == family.name]
        chosen: list[list[Pick]] = []
        for demanded in demand.cards:
            picks: dict[str, Pick] = {}
            for grant in ours:
                if demanded.container and not _is_for(grant, demanded):
                    continue
                for device in grant.devices:
                    card = cards.get(device.id)
                    if card is None:
                        return f"cards of the node: it has no card {device.id}"
                    if family.modes and card.mode not in family.modes:
                        return f"cards in mode {' or '.join(sorted(family.modes))}: {device.id} is in mode {card.mode}"
                    pick = family.pick_of(demand, demanded, device, card, self._conf)
                    if pick is None:
                        return f"a device for the request, not {device.detail} of {device.id}"
                    picks[device.id] = pick
            if len(picks) != demanded.count:
                return f"{demanded.count} cards for {demanded.container or 'the pod'}, not {len(picks)}"
            chosen.append(list(picks.values()))
        return family.grants(demand, chosen, self._conf, _NOTHING_EXPECTED)


def _is_for(grant: ContainerGrant, demanded: CardDemand) -> bool:
    return (grant.container, grant.position, grant.stage) == (demanded.container, demanded.position, demanded.stage)


def _named(card_request: CardRequest) -> str:
    return " or ".join(family.name for family, _ in card_request.answers)


def _shown(grants: Sequence[ContainerGrant]) -> str:
    """Return grants as in "main: hami-core GPU-0 3000 MiB 10 cores"."""
    devices = [(grant, device) for grant in grants for device in grant.devices]
    shown = ", ".join(
        f"{grant.container}: {grant.family} {device.id} {device.memory} MiB {device.cores} cores"
        + f" {device.detail}" * bool(device.detail)
        for grant, device in devices
    )
    return shown or "no devices"
