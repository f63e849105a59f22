"""The usual family: containers are placed one after the other, and what they take of a card adds up."""

from collections.abc import Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hooks import Hooks
from deviceshare.families.protocol import (
    Accounting,
    CardDemand,
    CardNames,
    Check,
    Demand,
    ExpectedDemand,
    Pick,
    Picks,
    Places,
)
from deviceshare.kernels import CardSelector
from deviceshare.model import INIT, Card, ContainerGrant, DeviceGrant
from deviceshare.state import CardView, Codes


class OneByOne(Hooks):
    """The members of the protocol that most families share. A subclass adds :meth:`pick` and :meth:`failed`."""

    name: str
    modes: frozenset[str]
    answers = ""
    whole_modes: frozenset[str] = frozenset()
    accounting: Accounting | None = None
    best_node_score = 0.0
    pod_annotations: frozenset[str] = frozenset()
    held_annotations: frozenset[str] = frozenset("*")
    pod_labels: frozenset[str] = frozenset()
    plugin: DevicePlugin = DevicePlugin()

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return no names: cards count in no queue unless the family names resources."""
        return CardNames()

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick cards for one container on every node of the view; charge nothing."""
        raise NotImplementedError

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that cards fail for one container, also on nodes that are feasible."""
        raise NotImplementedError

    def charge(self, demand: Demand, cards: CardDemand, view: CardView, picks: Picks) -> None:
        """Charge memory, cores and a slot of each picked card in the view."""
        common.charge(cards, view, picks)

    def steps(self, demand: Demand, view: CardView, conf: SchedulerConf) -> common.Steps:
        """Return how :meth:`place` and :meth:`checks` proceed."""
        return common.Steps(
            common.in_turn(demand, view),
            lambda cards: self.pick(demand, cards, view, conf),
            lambda cards, picks: self.charge(demand, cards, view, picks),
            lambda cards: self.failed(demand, cards, view, conf),
            lambda _: view.of_modes(self.modes),
        )

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Pick and charge, container by container."""
        return common.place_one_by_one(view, self.steps(demand, view, conf))

    def selector(self, demand: Demand, codes: Codes, conf: SchedulerConf) -> CardSelector | None:
        """Return :meth:`kernel`; None for several containers, or a pod that restricts cards by ids or by other pods."""
        (cards, *others) = demand.cards
        if others or cards.stage == INIT or common.is_restricted(demand):
            return None
        selector = self.kernel(demand, cards, codes, conf)
        if selector is not None:
            selector.equivalence_key = self.essence(demand, cards, conf)
        return selector

    def kernel(self, demand: Demand, cards: CardDemand, codes: Codes, conf: SchedulerConf) -> CardSelector | None:
        """Return a kernel that picks the same cards as :meth:`pick` for one container; None: there is none."""
        return None

    def essence(self, demand: Demand, cards: CardDemand, conf: SchedulerConf) -> Demand:
        """Return the parts of a demand for the cards of one container that affect which cards are picked."""
        return common.essence(demand)

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that fail, container by container."""
        return common.check_one_by_one(self.steps(demand, view, conf))

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant for each container, its devices in the order of the picks."""
        return common.grants_of(self.name, demand, chosen, _device)

    def pick_of(
        self, demand: Demand, cards: CardDemand, device: DeviceGrant, card: Card, conf: SchedulerConf
    ) -> Pick | None:
        """Return the card: a device has no further detail."""
        return Pick(card, 0)

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Clamp memory and cores."""
        return common.at_most(device, asked, card)

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return nothing: the device plugin does what the grants say."""
        return ()


def _device(cards: CardDemand, pick: Pick) -> DeviceGrant:
    card = pick.card
    return DeviceGrant(card.id, card.index, common.memory_on(cards, card), cards.cores)
