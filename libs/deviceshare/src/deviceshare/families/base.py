"""The usual family: containers are placed one after the other, and what they take of a card adds up."""

from collections.abc import Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.protocol import CardDemand, CardNames, Check, Demand, ExpectedDemand, Pick, Picks, Places
from deviceshare.kernels import CardSelector
from deviceshare.model import Card, ContainerGrant, DeviceGrant
from deviceshare.state import CardShare, CardView, Codes, Counted


class OneByOne:
    """The members of the protocol that most families share. A subclass adds :meth:`pick` and :meth:`failed`."""

    name: str
    answers = ""
    state: tuple[str, ...] = ()
    best_node_score = 0.0
    pod_annotations: frozenset[str] = frozenset()
    pod_labels: frozenset[str] = frozenset()
    plugin = DevicePlugin()

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return no names: cards count in no queue unless the family names resources."""
        return CardNames()

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick cards for one container on every node of the view; charge nothing."""
        raise NotImplementedError

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that cards fail for one container, also on nodes that are feasible."""
        raise NotImplementedError

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Pick and charge, container by container."""
        return common.place_one_by_one(
            demand,
            view,
            lambda cards: self.pick(demand, cards, view, conf),
            lambda cards, picks: common.charge(cards, view, picks),
        )

    def selector(self, demand: Demand, codes: Codes, conf: SchedulerConf) -> CardSelector | None:
        """Return None: cards are picked in NumPy."""
        return None

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that fail, container by container."""
        return common.check_one_by_one(
            demand,
            lambda cards: self.pick(demand, cards, view, conf),
            lambda cards, picks: common.charge(cards, view, picks),
            lambda cards: self.failed(demand, cards, view, conf),
            common.in_turn(demand, view),
        )

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant for each container, its devices in the order of the picks."""
        grants = []
        for cards, picks in zip(demand.cards, chosen, strict=True):
            devices = [
                DeviceGrant(card.id, card.index, common.memory_on(cards, card), cards.cores) for card, _ in picks
            ]
            grants.append(ContainerGrant(cards.container, cards.position, self.name, tuple(devices), cards.stage))
        return tuple(grants)

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Never called where there is no state."""
        raise NotImplementedError

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Clamp memory and cores."""
        return common.at_most(device, asked, card)

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return nothing: the device plugin does what the grants say."""
        return ()
