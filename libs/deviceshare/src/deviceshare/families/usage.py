"""The usage of cards: one rule for placement and for metrics.

Amounts add up over pods (:func:`~deviceshare.state.usage_of`), except on cards of a family that counts by itself: a MIG
instance or a template takes more than the pod requests.
"""

from collections.abc import Iterable, Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.protocol import Accounting, CardCount
from deviceshare.families.registry import BY_NAME, FAMILIES
from deviceshare.model import Card, ContainerGrant
from deviceshare.state import CardShare, Usage, total, usage_of


def accountings() -> dict[str, Accounting]:
    """Return the accountings of families, by the modes of their cards."""
    return {mode: family.accounting for family in FAMILIES if family.accounting is not None for mode in family.modes}


def device_resources(conf: SchedulerConf) -> frozenset[str]:
    """Return the resources that families account for on cards, and that are no resources of the node itself."""
    return frozenset[str]().union(*(family.resources(conf) for family in FAMILIES))


def shares_whole(cards: Iterable[Card]) -> bool:
    """Return whether a node with these cards shares them under the resource of whole GPUs (``nvidia.com/gpu``)."""
    modes = frozenset[str]().union(*(family.whole_modes for family in FAMILIES if family.hardware.whole))
    return any(card.mode in modes for card in cards)


def grants_share_whole(grants: Iterable[ContainerGrant]) -> bool:
    """Return whether the resource of whole cards counts shares, which these grants list by themselves."""
    families = (BY_NAME.get(grant.family) for grant in grants)
    return any(family is not None and family.whole_modes and family.hardware.whole for family in families)


class CardCounter:
    """Counts cards under one configuration."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._conf = conf
        self._accountings = accountings()

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]]) -> CardCount:
        """Return what is shown of a card of which each of these pods holds these shares."""
        accounting = self._accountings.get(card.mode)
        if accounting is not None:
            return accounting.shown(card, accounting.count(card, pods, self._conf), self._conf)
        used = self.used(card, pods)
        return CardCount(used, common.largest_free(card, used))

    def used(self, card: Card, pods: Sequence[Sequence[CardShare]]) -> Usage:
        """Return the usage of a card of which each of these pods holds these shares."""
        accounting = self._accountings.get(card.mode)
        if accounting is not None and pods:
            return accounting.count(card, pods, self._conf)[0]
        if len(pods) == 1:
            return usage_of(card, pods[0])
        return total([usage_of(card, shares) for shares in pods])
