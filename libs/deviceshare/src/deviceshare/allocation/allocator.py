"""The allocator: which node and which devices, or why none.

Each question is asked once. Pods with equal asks share one *shape*, what families read of it; shapes that make no
difference to nodes share one *outlook*: for every node whether such a pod fits and how good the node is, and the best
of them. An outlook is brought up to date, only for the nodes that changed since it was last used, when it is asked
again; which cards a pod gets is looked up for the one node that is chosen. The loops over nodes and cards are kernels
(:mod:`deviceshare.kernels`); nothing here knows a device family by name.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec
import numpy as np

from deviceshare.allocation.card_models import model_of, type_caveats
from deviceshare.allocation.diagnosis import closest, counted, merged
from deviceshare.allocation.node_checks import amount_checks, model_checks, port_checks, state_checks
from deviceshare.allocation.node_ranking import RankingCache
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.resource_names import device_names
from deviceshare.allocation.ties import LOWEST, Ties
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, counting_families
from deviceshare.kernels import NEVER, Changes, Order
from deviceshare.model import (
    INIT,
    WHOLE,
    ContainerGrant,
    HostPort,
    NearNode,
    NodeFact,
    PodRequest,
    Problem,
    Refusal,
    Resources,
    Tenant,
)
from deviceshare.state import (
    CardTable,
    CardView,
    Holding,
    HostPorts,
    Ints,
    ResourceTable,
    Usage,
    shares_by_card,
    shares_on,
    usage_of,
)

NOBODY = Tenant()
_MOST_POD_CLASSES = 4096


class Placement(msgspec.Struct, frozen=True):
    """A pod's place: the node, what it gets there, and how the choice came about."""

    node: str
    grants: tuple[ContainerGrant, ...]
    resources: tuple[tuple[str, int], ...]
    feasible: int
    score: float
    """Of the devices."""
    weighted_score: float = 0.0
    """Of the node, in all."""
    ports: tuple[HostPort, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    """What scores count of it there beside ``resources``."""


class Unplaceable(msgspec.Struct, frozen=True):
    """Why no node takes a pod: the reasons, counted over ``nodes`` nodes, or the problem of the request itself."""

    nodes: int
    refusals: tuple[Refusal, ...]
    problem: Problem | None = None
    closest: tuple[NearNode, ...] = ()
    """The nodes that lack least, the nearest first."""
    caveats: tuple[str, ...] = ()
    """What a user should know of how the pod's wishes were read."""


class Allocator:
    """The cluster as arrays, what is held in it, and the answers for every ask seen."""

    def __init__(self, conf: SchedulerConf, ties: Ties = LOWEST) -> None:
        self.conf = conf
        self._ties = ties
        self._granting = conf
        """The configuration with what pods ask."""
        self._cards = CardTable(name for family in FAMILIES for name in family.state)
        self._counting = counting_families()
        self._resources = ResourceTable()
        self._ports = HostPorts()
        self._rows: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._nodes: list[NodeFact | None] = []
        self._holdings: dict[str, dict[str, Holding]] = defaultdict(dict)
        self._pod_classes: dict[PodRequest, PodClass] = {}
        self._changes = Changes()
        """The rows of which anything changed."""
        self._facts = Changes()
        """The rows whose node's fact changed."""
        self._types_seen = 0
        self._order = Order()
        self._rankings = RankingCache(conf, self._order)
        self._ordered = False
        """Whether ``_order`` knows all nodes."""

    # What is known of nodes

    def set_configuration(self, conf: SchedulerConf) -> None:
        """Decide by another configuration from now on; what is held stays held."""
        if conf == self.conf:
            return
        devices = conf.devices != self.conf.devices
        self.conf = conf
        self._granting = msgspec.structs.replace(conf, asked=self._granting.asked)
        self._pod_classes.clear()
        self._rankings = RankingCache(conf, self._order)
        if devices and self._counting:
            for name, row in self._rows.items():
                self._recount(row, range(len(self._cards.cards[row])), self._holdings[name].values())

    def expect(self, asks: Iterable[tuple[PodRequest, int]]) -> None:
        """Hear what pods ask, and how many pods each.

        It moves no pod to another node or card; a family may leave open until :meth:`Family.grants
        <deviceshare.families.protocol.Family.grants>` what serves best those that are yet to come. So no shape gets old
        by it.
        """
        amounts: Counter[tuple[str, int]] = Counter()
        for ask, pods in asks:
            for card_request in self._known(ask).card_requests:
                for family, demand in card_request.answers:
                    for cards in demand.cards:
                        if cards.memory and not cards.memory_percentage:
                            amounts[family.name, cards.memory] += pods * cards.count
        asked = tuple((family, memory, count) for (family, memory), count in sorted(amounts.items()))
        self._granting = msgspec.structs.replace(self.conf, asked=asked)

    def set_node(self, node: NodeFact) -> None:
        """Enter a node or what changed of it; what is held there is charged to its cards anew."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._free_rows.pop() if self._free_rows else len(self._nodes)
            if row == len(self._nodes):
                self._nodes.append(None)
            self._rows[node.name] = row
            self._ordered = False
            self._resources.clear(row)
            self._ports.clear(row)
            for holding in self._holdings[node.name].values():
                self._charge_node(row, holding, 1)
        previous = self._nodes[row]
        if previous is None or previous.cards != node.cards:
            self._cards.set_cards(row, node.cards)
            holdings = self._holdings[node.name].values()
            for holding in holdings:
                self._charge_cards(row, holding, 1)
            self._recount(row, range(len(node.cards)), holdings)
        self._resources.set_node(row, node.allocatable)
        self._cards.set_model(row, model_of(node))
        self._nodes[row] = node
        self._touch(row, fact=True)

    def remove_node(self, name: str) -> None:
        """Forget a node. What is held there is remembered, in case that it comes back."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._nodes[row] = None
        self._free_rows.append(row)
        self._ordered = False
        self._cards.set_cards(row, ())
        self._cards.set_model(row, "")
        self._resources.clear(row)
        self._touch(row, fact=True)

    def node(self, name: str) -> NodeFact | None:
        """Return the fact of a node, or None."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._rows)

    # What is held

    def hold(
        self,
        node: str,
        uid: str,
        grants: Sequence[ContainerGrant],
        resources: Iterable[tuple[str, int]],
        tenant: Tenant = NOBODY,
        ports: Iterable[HostPort] = (),
        counted: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Charge a pod to a node; what it held there before is given back first."""
        holding = Holding(tuple(grants), tuple(resources), tenant, tuple(ports), tuple(counted))
        held = self._holdings[node]
        if uid in held:
            if held[uid] == holding:
                return
            self.release(node, uid)
        held[uid] = holding
        self._charge(node, holding, 1)

    def take(self, uid: str, placement: Placement, tenant: Tenant = NOBODY) -> None:
        """Charge a pod to the place that :meth:`place` found for it."""
        self.hold(
            placement.node,
            uid,
            placement.grants,
            placement.resources,
            tenant,
            placement.ports,
            placement.counted,
        )

    def release(self, node: str, uid: str) -> bool:
        """Give back what a pod holds on a node; returns whether it held anything."""
        holding = self._holdings[node].pop(uid, None)
        if holding is None:
            return False
        self._charge(node, holding, -1)
        return True

    def holding(self, node: str, uid: str) -> Holding | None:
        """Return what a pod holds on a node, or None."""
        return self._holdings[node].get(uid)

    def _charge(self, node: str, holding: Holding, sign: int) -> None:
        row = self._rows.get(node)
        if row is None:
            return
        counted = self._charge_cards(row, holding, sign)
        if counted:
            self._recount(row, counted, self._holdings[node].values())
        self._charge_node(row, holding, sign)
        self._touch(row)

    def _charge_node(self, row: int, holding: Holding, sign: int) -> None:
        """Take or give back what a pod takes of a node beside its devices."""
        self._resources.charge(row, (*holding.resources, *holding.counted), sign)
        if holding.ports:
            self._ports.charge(row, holding.ports, sign)

    def _charge_cards(self, row: int, holding: Holding, sign: int) -> list[int]:
        """Take or give back what a pod holds; returns the columns of the cards that their family counts instead.

        Devices that the node does not have are passed over.
        """
        if any(grant.stage == INIT for grant in holding.grants):
            found = [
                (self._cards.column(row, name, shares[0].device.index), shares)
                for name, shares in shares_by_card(holding.grants).items()
            ]
            charged = [(at, usage_of(self._cards.cards[row][at], shares)) for at, shares in found if at >= 0]
        else:
            # What containers have at the same time adds up.
            charged = []
            for grant in holding.grants:
                for device in grant.devices:
                    at = self._cards.column(row, device.id, device.index)
                    if at >= 0:
                        memory = self._cards.cards[row][at].memory if device.memory == WHOLE else device.memory
                        charged.append((at, Usage(memory, device.cores, 1)))
        counted = []
        for at, (memory, cores, slots) in charged:
            if self._cards.cards[row][at].mode in self._counting:
                counted.append(at)
            else:
                self._cards.charges.add(row, at, sign * memory, sign * cores, sign * slots)
        return counted

    def _recount(self, row: int, columns: Iterable[int], holdings: Iterable[Holding]) -> None:
        """Let the families count what is taken of their cards."""
        for column in columns:
            card = self._cards.cards[row][column]
            if (family := self._counting.get(card.mode)) is not None:
                self._cards.put(row, column, *family.count(card, shares_on(card, holdings), self.conf))

    # Questions

    def place(self, ask: PodRequest) -> Placement | None:
        """Return the best place for a pod, or None.

        Charges nothing: :meth:`take` does. Of equal nodes that takes it which wastes least, then by the ties.
        """
        pod_class = self._pod_class(ask)
        if pod_class.unschedulable:
            return None
        row, bonus = pod_class.best()
        if row < 0:
            return None
        score, chosen = pod_class.chosen(row, self._resources.amounts, lambda: self._view(np.array([row])), self.conf)
        return Placement(
            node=self._name(row),
            grants=pod_class.grants(chosen, self._cards.cards[row], self._granting),
            resources=pod_class.resources,
            feasible=pod_class.node_index.best.able,
            score=score + bonus,
            weighted_score=pod_class.node_index.best.key(row),
            ports=ask.host_ports,
            counted=pod_class.counted,
        )

    def amounts(self, ask: PodRequest) -> tuple[tuple[str, int], ...]:
        """Return what a pod takes of a node beside its devices."""
        return self._known(ask).resources

    def beside(self, ask: PodRequest) -> tuple[tuple[HostPort, ...], tuple[tuple[str, int], ...]]:
        """Return which ports of a node a pod listens on, and what scores count of it beside its amounts."""
        return ask.host_ports, self._known(ask).counted

    def worths(self, ask: PodRequest) -> dict[str, float]:
        """Return what each node is worth that a pod may have now."""
        pod_class = self._pod_class(ask)
        if pod_class.unschedulable:
            return {}
        keys = np.asarray(pod_class.node_index.best.keys)
        return {self._name(row): float(keys[row]) for row in np.flatnonzero(keys > NEVER).tolist()}

    def why_not(self, ask: PodRequest) -> Unplaceable:
        """Return every reason that keeps a pod from the nodes as they are now, counted over nodes."""
        pod_class = self._pod_class(ask)
        if pod_class.problem is not None:
            return Unplaceable(self.nodes, (), pod_class.problem)
        if pod_class.unschedulable:
            return Unplaceable(self.nodes, pod_class.for_no_node(ask, self.conf))
        # By name, so that the nearest node is the same for all who ask.
        rows = np.array([self._rows[name] for name in sorted(self._rows)], dtype=np.int64)
        if not len(rows):
            return Unplaceable(0, ())
        view = self._view(rows) if pod_class.card_requests else None

        def name(row: int) -> str:
            return self._name(int(rows[row]))

        admitted = pod_class.ranking.node_filter.admitted[rows]
        checks = state_checks(pod_class.rule, [self._nodes[row] for row in rows.tolist()], admitted)
        if pod_class.models is not None:
            models = self._cards.models[rows]
            checks += model_checks(
                pod_class.models, self._cards.type_names, models, pod_class.resources, self._resources, rows
            )
        checks += port_checks(pod_class.ports, self._ports, rows)
        checks += amount_checks(pod_class.resources, self._resources, rows, device_names(self.conf))
        if view is not None:
            checks += pod_class.checks(view, self.conf)
        checks = merged(checks)
        found = tuple(counted(check, name, admitted) for check in checks)
        return Unplaceable(self.nodes, found, closest=closest(checks, view, name, admitted), caveats=self.caveats(ask))

    def caveats(self, ask: PodRequest) -> tuple[str, ...]:
        """Return what a user should know of how a pod's wishes are read here."""
        pod_class = self._known(ask)
        if pod_class.caveats_at != self._cards.types_version:
            pod_class.caveats = type_caveats(ask, self._cards.type_names)
            pod_class.caveats_at = self._cards.types_version
        return pod_class.caveats

    # How a shape is kept up to date

    def _touch(self, row: int, *, fact: bool = False) -> None:
        if self._changes.rows < self._cards.rows:
            self._changes.grow(self._cards.rows)
            self._facts.grow(self._cards.rows)
        self._changes.touch(row)
        if fact:
            self._facts.touch(row)
        # Which cards a model name means depends on the models that there are, on all nodes.
        if self._cards.types_version != self._types_seen:
            self._types_seen = self._cards.types_version
            self._changes.touch_all()

    def _pod_class(self, ask: PodRequest) -> PodClass:
        """Return the shape of an ask, up to date."""
        pod_class = self._known(ask)
        if not pod_class.unschedulable:
            self._refresh(pod_class)
        return pod_class

    def _known(self, ask: PodRequest) -> PodClass:
        pod_class = self._pod_classes.get(ask)
        if pod_class is None:
            if len(self._pod_classes) > _MOST_POD_CLASSES:
                self._pod_classes.clear()
            pod_class = self._pod_classes[ask] = PodClass(ask, self.conf)
        return pod_class

    def _refresh(self, pod_class: PodClass) -> None:
        changes = self._changes
        if pod_class.version != (version := self._cards.version + self._resources.version):
            pod_class.resolve(self._cards, self._resources, self.conf, self._rankings, version)
        node_index = pod_class.node_index
        if node_index.seen == changes.now:
            return
        if not self._ordered:
            self._put_in_order()
        if node_index.facts_version != self._facts.now:
            pod_class.ranking.refresh(self._facts, self._nodes, pod_class.ask)
        count = node_index.narrow(changes, self._resources.amounts, self._cards.charges)
        self._evaluate(pod_class, self._with_ports(pod_class, count) if pod_class.ports else count)
        if node_index.scores is not None and len(rows := node_index.scores.outdated()):
            np.asarray(changes.found)[: len(rows)] = rows
            self._evaluate(pod_class, len(rows))

    def _evaluate(self, pod_class: PodClass, count: int) -> None:
        """Look at the cards of the first rows of ``self._changes.found``."""
        if not count:
            return
        if pod_class.node_index.selectors is not None:
            pod_class.node_index.evaluate(self._changes, count, self._resources.amounts)
        else:
            rows = np.array(self._changes.found[:count])
            pod_class.evaluate(rows, self._view(rows), self.conf)

    def _with_ports(self, pod_class: PodClass, count: int) -> int:
        """Put aside those of the first rows of ``self._changes.found`` where a port is in use; return how many stay."""
        found = self._changes.found
        left = 0
        for row in np.array(found[:count]).tolist():
            if self._ports.free(row, pod_class.ports):
                found[left] = row
                left += 1
            else:
                pod_class.node_index.put(row, NEVER, 0.0)
        return left

    def _view(self, rows: Ints) -> CardView:
        return self._cards.view(
            rows, lambda name: self._resources.allocatable(rows, name), lambda row: self._held_on(row)
        )

    def _held_on(self, row: int) -> Collection[Holding]:
        node = self._nodes[row]
        return self._holdings[node.name].values() if node is not None else ()

    def _put_in_order(self) -> None:
        """Number the nodes: of equal ones the first takes the pod."""
        ranks = np.zeros(self._cards.rows, dtype=np.int64)
        ranks[[self._rows[name] for name in sorted(self._rows, key=self._ties.key)]] = np.arange(len(self._rows))
        self._order.ranks = ranks
        self._ordered = True

    def _name(self, row: int) -> str:
        node = self._nodes[row]
        assert node is not None
        return node.name

    # Why not, in numbers

    def used(self, node: str) -> Resources:
        """Return what is taken of a node beside its devices."""
        row = self._rows.get(node)
        return {} if row is None else self._resources.used(row)

    def used_amount(self, node: str, name: str) -> int:
        """Return how much of one resource of a node is used, 0 for an unknown node."""
        row = self._rows.get(node)
        return 0 if row is None else self._resources.used_amount(row, name)

    def used_cards(self, node: str) -> list[Usage]:
        """Return what is taken of each card of a node, in the order of registration."""
        row = self._rows.get(node)
        return [] if row is None else self._cards.used(row)

    def card_state(self, node: str, name: str) -> list[int]:
        """Return what a family counts of each card of a node beside the amounts (a name of its ``state``)."""
        row = self._rows.get(node)
        return [] if row is None else self._cards.state(row, name)
