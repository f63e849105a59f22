"""What pods hold of the nodes, charged to the arrays of :mod:`deviceshare.state`."""

from collections.abc import Collection, Sequence

from deviceshare.allocation.counted_cards import CountedCards
from deviceshare.allocation.nominated_room import NOTHING, NominatedRoom, nominated_room
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, device_resources
from deviceshare.families.dra import ClusterDevices
from deviceshare.kernels import Changes
from deviceshare.model import INIT, WHOLE, NodeFact
from deviceshare.state import CardShare, CardTable, Holding, HostPorts, ResourceTable, Usage, shares_by_card, usage_of
from deviceshare.topology import PlacedPods
from deviceshare.volumes import ClusterVolumes

NO_HOLDINGS: dict[str, Holding] = {}


class NodeCharges:
    """The arrays, and what changes them when a pod holds something on a node or nothing any more."""

    def __init__(self, conf: SchedulerConf) -> None:
        self.conf = conf
        self._counted = CountedCards()
        self._cards = CardTable(name for family in FAMILIES if family.accounting for name in family.accounting.state)
        self._resources = ResourceTable()
        self._resources.set_open(device_resources(conf))
        self._ports = HostPorts()
        self._rows: dict[str, int] = {}
        self._nodes: list[NodeFact | None] = []
        """The fact of the node in each row, None for a row without a node."""
        self._holdings: dict[str, dict[str, Holding]] = {}
        """Holdings by node name and pod uid; no entry for a node without holdings."""
        self._nominated: dict[str, NominatedRoom] = {}
        """What is charged for the nominated pods of the known nodes that have, or may have, some."""
        self._changes = Changes()
        """The rows in which anything changed."""
        self._facts = Changes()
        """The rows whose NodeFact changed."""
        self._types_seen = 0
        self.volumes = ClusterVolumes(self._facts, self._nodes, self._rows)
        """The objects of storage, which the caller adds and removes, and the volumes that pods on nodes use."""
        self.devices = ClusterDevices(self._facts, self._nodes, self._rows)
        """The objects of devices, which the caller adds and removes, and the devices that claims use."""
        self._placed: PlacedPods | None = None
        """The pods on nodes as inter-pod constraints see them; None until a pod has such constraints."""

    def _holdings_on(self, node: str) -> Collection[Holding]:
        return self._holdings.get(node, NO_HOLDINGS).values()

    def _charge(self, node: str, holding: Holding, sign: int, *, last: bool = False) -> None:
        """Add (``sign`` 1) or subtract (-1) what a pod holds; ``last``: it was added after all others of the node."""
        row = self._rows.get(node)
        if row is None:
            return
        nominated = bool(holding.waits_for) or node in self._nominated
        if nominated:
            self._release_nominated(node, row)
        for column, shares in self._charge_cards(row, holding, sign).items():
            self._count(row, column, node, shares if last else None)
        self._charge_node(row, holding, sign)
        if nominated:
            self._charge_nominated(node, row)
        if self._placed is not None:
            self._placed.charge(row, holding.tenant, sign)
        self._changes.touch(row)

    def _charge_node(self, row: int, holding: Holding, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the node's own resources, ports, volumes and devices that a pod holds.

        The ports and volumes of a nominated pod are in use beside those of the pods that go.
        """
        if not holding.waits_for:
            self._resources.charge(row, holding.resources, sign)
        if holding.ports:
            self._ports.charge(row, holding.ports, sign)
        tenant = holding.tenant
        if tenant.volumes or tenant.disks:
            self.volumes.charge(row, tenant, sign)
        if tenant.devices:
            self.devices.charge(tenant.devices, sign)

    def _charge_cards(self, row: int, holding: Holding, sign: int) -> dict[int, list[CardShare]]:
        """Add or subtract the cards of a holding; return its shares of cards that their family counts, by column.

        Skips devices that the node does not have. What a nominated pod holds is charged otherwise.
        """
        if holding.waits_for:
            return {}
        cards = self._cards.cards[row]
        counted: dict[int, list[CardShare]] = {}
        init = False
        # A generator would cost a fifth of the whole charge.
        for grant in holding.grants:
            init = init or grant.stage == INIT
        if init:
            for name, shares in shares_by_card(holding.grants).items():
                at = self._cards.column(row, name, shares[0].device.index)
                if at >= 0 and cards[at].mode in self._counted.modes:
                    counted[at] = shares
                elif at >= 0:
                    memory, cores, slots = usage_of(cards[at], shares)
                    self._cards.charges.add(row, at, sign * memory, sign * cores, sign * slots)
            return counted
        # Containers that run at the same time add up.
        for grant in holding.grants:
            for device in grant.devices:
                at = self._cards.column(row, device.id, device.index)
                if at < 0:
                    continue
                card = cards[at]
                if card.mode in self._counted.modes:
                    counted.setdefault(at, []).append(CardShare(device, grant.position, grant.stage))
                else:
                    memory = card.memory if device.memory == WHOLE else device.memory
                    self._cards.charges.add(row, at, sign * memory, sign * device.cores, sign)
        return counted

    def _count(self, row: int, column: int, node: str, more: Sequence[CardShare] | None = None) -> None:
        """Compute the usage of a card whose family counts it; ``more``: only a pod with these shares is new."""
        card = self._cards.cards[row][column]
        counted = None if more is None else self._counted.add(row, column, card, more, self.conf)
        if counted is None:
            holdings = self._holdings_on(node)
            if node in self._nominated:
                holdings = [holding for holding in holdings if not holding.waits_for]
            counted = self._counted.count(row, column, card, holdings, self.conf)
        self._cards.put(row, column, *counted)

    def _charge_nominated(self, node: str, row: int) -> None:
        """Charge the excess of the nominated pods of a node, if it has some; no card is counted afterwards."""
        cards = self._cards.cards[row]
        room = nominated_room(self._holdings.get(node, NO_HOLDINGS), cards, self._counted.modes)
        if room is None:
            self._nominated.pop(node, None)
            return
        self._nominated[node] = room
        self._add_nominated(row, room, 1)
        for column, card in enumerate(cards):
            if card.id in room.closed:
                usage, state = self._counted.known(row, column)
                full = Usage(*map(max, usage, (card.memory, card.cores, card.slots)))
                self._cards.put(row, column, full, state)

    def _release_nominated(self, node: str, row: int) -> None:
        """Release what :meth:`_charge_nominated` has charged, before anything else of the node changes."""
        room, self._nominated[node] = self._nominated.get(node, NOTHING), NOTHING
        self._add_nominated(row, room, -1)
        for column, card in enumerate(self._cards.cards[row]):
            if card.id in room.closed:
                self._cards.put(row, column, *self._counted.known(row, column))

    def _add_nominated(self, row: int, room: NominatedRoom, sign: int) -> None:
        self._resources.charge(row, room.amounts, sign, pods=room.pods)
        for column, card in enumerate(self._cards.cards[row]):
            if (usage := room.cards.get(card.id)) is not None:
                self._cards.charges.add(row, column, *(sign * amount for amount in usage))

    def _recount_all(self) -> None:
        """Compute the usage of all such cards under another configuration."""
        for name, row in self._rows.items():
            nominated = name in self._nominated
            if nominated:
                self._release_nominated(name, row)
            self._count_cards(row, name)
            if nominated:
                self._charge_nominated(name, row)
        self._changes.touch_all()

    def _count_cards(self, row: int, node: str) -> None:
        """Compute the usage of all such cards of a node."""
        for column, card in enumerate(self._cards.cards[row]):
            if card.mode in self._counted.modes:
                self._count(row, column, node)

    def _touch_fact(self, row: int) -> None:
        """Record that the fact of a node changed, which may be in a new row."""
        if self._changes.rows < self._cards.rows:
            self._changes.grow(self._cards.rows)
            self._facts.grow(self._cards.rows)
        self._changes.touch(row)
        self._facts.touch(row)
        # The cards that match a model name depend on the models in the whole cluster.
        if self._cards.types_version != self._types_seen:
            self._types_seen = self._cards.types_version
            self._changes.touch_all()
