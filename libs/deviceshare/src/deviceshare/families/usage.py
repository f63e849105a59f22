"""What is taken of a card, by the one rule of those who decide and those who show.

Amounts add up over pods (:func:`~deviceshare.state.usage_of`), except on cards of a family that counts by itself:
what a MIG instance or a template takes is not what was asked.
"""

from collections.abc import Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families.protocol import Family
from deviceshare.families.registry import FAMILIES
from deviceshare.model import Card
from deviceshare.state import CardShare, Usage, total, usage_of


def counting_families() -> dict[str, Family]:
    """Return the families that count what is taken of a card by themselves, by the modes of their cards."""
    return {mode: family for family in FAMILIES if family.state for mode in family.modes}


def device_resources(conf: SchedulerConf) -> frozenset[str]:
    """Return the resources that families account for on cards: they are no plain amounts of a node."""
    return frozenset[str]().union(*(family.resources(conf) for family in FAMILIES))


class CardCounter:
    """Counts cards under one configuration."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._conf = conf
        self._families = counting_families()

    def used(self, card: Card, pods: Sequence[Sequence[CardShare]]) -> Usage:
        """Return what is taken of a card where each of these pods holds these shares of it."""
        family = self._families.get(card.mode)
        if family is not None and pods:
            return family.count(card, pods, self._conf)[0]
        if len(pods) == 1:
            return usage_of(card, pods[0])
        return total(usage_of(card, shares) for shares in pods)
