"""The nodes as rows of arrays: their facts, cards, resources and holdings."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import numpy as np

from deviceshare.allocation.card_models import model_of
from deviceshare.allocation.node_charges import NO_HOLDINGS, NodeCharges
from deviceshare.allocation.nominated_room import NOTHING
from deviceshare.allocation.ties import Ties
from deviceshare.conf import SchedulerConf
from deviceshare.families import device_resources
from deviceshare.kernels import TieOrder
from deviceshare.model import ContainerGrant, HostPort, Labels, NodeFact, Resources, Tenant
from deviceshare.state import CardView, Holding, Ints, UndoLog, Usage
from deviceshare.topology import ImposedTerms, PlacedPods

NO_TENANT = Tenant()


def _no_preference(_: str) -> tuple[int, int]:
    return 0, 0


class NodeTable(NodeCharges):
    """The state of the cluster. Methods whose names start with an underscore are for subclasses.

    A holding on an unknown node is stored, and charged when the node is added.
    """

    def __init__(self, conf: SchedulerConf, ties: Ties) -> None:
        super().__init__(conf)
        self._ties = ties
        self._free_rows: list[int] = []
        self.undo_log = UndoLog()
        """What undoes the changes of holdings and reservations in open trials."""
        self._order = TieOrder()
        self._ordered = False
        """Whether ``_order`` ranks all nodes."""
        self._preference: Callable[[str], tuple[int, int]] = _no_preference
        self._namespaces: dict[str, dict[str, str]] = {}
        """The labels of namespaces by name."""
        self.imposed_terms = ImposedTerms(self._namespaces)
        """The terms by which the pods of the cluster affect other pods. The caller adds and removes them, and puts
        those that select a pod into its request (``imposed``)."""

    def prefer(self, preference: Callable[[str], tuple[int, int]]) -> None:
        """Choose the nodes with the lowest preference among equal nodes, and only then by the configured tie order.

        ``preference`` maps the name of a node. Replicas that prefer other nodes rarely choose the same one.
        """
        self._preference, self._ordered = preference, False
        # Rankings keep the best row of each block.
        self._changes.touch_all()

    # Nodes

    def set_node(self, node: NodeFact) -> None:
        """Add a node or update its fact. If its cards changed, holdings are charged to the new cards."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._free_rows.pop() if self._free_rows else len(self._nodes)
            if row == len(self._nodes):
                self._nodes.append(None)
            self._rows[node.name] = row
            self._ordered = False
            self._resources.clear(row)
            self._ports.clear(row)
            self.volumes.add_node(node.name)
            self._nominated[node.name] = NOTHING
            for holding in self._holdings_on(node.name):
                self._charge_node(row, holding, 1)
        elif node.name in self._nominated:
            self._release_nominated(node.name, row)
        previous = self._nodes[row]
        if previous is None or previous.cards != node.cards:
            self._cards.set_cards(row, node.cards)
            self._counted.forget(row)
            for holding in self._holdings_on(node.name):
                self._charge_cards(row, holding, 1)
            self._count_cards(row, node.name)
        self._resources.set_node(row, node.allocatable)
        self._cards.set_model(row, model_of(node))
        self._nodes[row] = node
        if node.name in self._nominated:
            self._charge_nominated(node.name, row)
        if self._placed is not None and (
            previous is None or previous.labels != node.labels or previous.taints != node.taints
        ):
            self._placed.grow(self._cards.rows)
            self._placed.set_node(row)
            for holding in self._holdings_on(node.name) if previous is None else ():
                self._placed.charge(row, holding.tenant, 1)
        self._touch_fact(row)
        self.devices.set_node(row)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its holdings are kept, and charged again when the node is added again."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._nodes[row] = None
        self._nominated.pop(name, None)
        self.volumes.remove_node(name, row)
        for holding in self._holdings_on(name):
            if holding.tenant.volumes or holding.tenant.disks:
                self.volumes.charge(row, holding.tenant, -1)
            if holding.tenant.devices:
                self.devices.charge(holding.tenant.devices, -1)
        if self._placed is not None:
            for holding in self._holdings_on(name):
                self._placed.charge(row, holding.tenant, -1)
            self._placed.set_node(row)
        self._free_rows.append(row)
        self._ordered = False
        self._cards.set_cards(row, ())
        self._counted.forget(row)
        self._cards.set_model(row, "")
        self._resources.clear(row)
        self._touch_fact(row)
        self.devices.set_node(row)

    def node(self, name: str) -> NodeFact | None:
        """Return the fact of a node, or None."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self._rows)

    @property
    def node_names(self) -> Collection[str]:
        """The names of the nodes."""
        return self._rows.keys()

    @property
    def tie_order(self) -> Ints:
        """int64[rows]: the place of each node in the configured tie order."""
        if not self._ordered:
            self._put_in_order()
        return np.asarray(self._order.ranks)

    # Holdings

    def hold(
        self,
        node: str,
        uid: str,
        grants: Sequence[ContainerGrant],
        resources: Iterable[tuple[str, int]],
        tenant: Tenant = NO_TENANT,
        ports: Iterable[HostPort] = (),
        waits_for: tuple[str, ...] = (),
    ) -> None:
        """Charge a pod to a node; replaces its holding there.

        Args:
            node: the name of the node, which may be unknown yet.
            uid: the pod's uid. A pod may have holdings on several nodes.
            grants: the devices. A device that the node does not have is stored and charges nothing.
            resources: the node's own resources, in the units of :data:`deviceshare.model.Resources`, and the amounts
                that nodes count in addition (:func:`~.node_scores.counted`).
            tenant: the holder, for families that keep pods of different holders apart.
            ports: the host ports that the pod uses.
            waits_for: the uids of the pods in whose place a nominated pod comes: see :mod:`.nominated_room`.
        """
        holding = Holding(tuple(grants), tuple(resources), tenant, tuple(ports), waits_for)
        before = self.holding(node, uid)
        if before == holding:
            return
        if before is not None:
            self.release(node, uid)
        self._holdings.setdefault(node, {})[uid] = holding
        self._charge(node, holding, 1, last=True)
        if (undo := self.undo_log.entries) is not None:
            undo.append((self.release, node, uid))

    def release(self, node: str, uid: str) -> bool:
        """Remove the holding of a pod on a node; return whether there was one."""
        held = self._holdings.get(node)
        if held is None or (holding := held.get(uid)) is None:
            return False
        if (undo := self.undo_log.entries) is not None:
            uids = list(held)
            undo.append((self._restore, node, uid, holding, uids[uids.index(uid) + 1 :]))
        del held[uid]
        if not held:
            del self._holdings[node]
        self._charge(node, holding, -1)
        return True

    def _restore(self, node: str, uid: str, holding: Holding, followers: Iterable[str]) -> None:
        """Undo a release: the pod precedes its ``followers`` on the node again, since families may count in turn."""
        held = self._holdings.setdefault(node, {})
        held[uid] = holding
        for follower in followers:
            held[follower] = held.pop(follower)
        self._charge(node, holding, 1)

    def holding(self, node: str, uid: str) -> Holding | None:
        """Return the holding of a pod on a node, or None."""
        held = self._holdings.get(node)
        return None if held is None else held.get(uid)

    def nodes_holding(self, uid: str) -> list[str]:
        """Return the nodes where a pod has a holding: it looks at every node."""
        return [node for node, held in self._holdings.items() if uid in held]

    def set_reserved(self, node: str, *, reserved: bool) -> None:
        """Make a node infeasible for all pods, or end the reservation. An unknown node is ignored."""
        row = self._rows.get(node)
        if row is not None:
            if (undo := self.undo_log.entries) is not None:
                undo.append((partial(self.set_reserved, reserved=self.is_reserved(node)), node))
            self._resources.set_reserved(row, reserved=reserved)
            self._changes.touch(row)

    def is_reserved(self, node: str) -> bool:
        """Return whether a node is infeasible for all pods, also for an unknown node."""
        row = self._rows.get(node)
        return row is None or bool(self._resources.reserved(np.array([row]))[0])

    def holdings_on(self, node: str) -> Collection[tuple[str, Holding]]:
        """Return the pods on a node by their uid, with what they hold."""
        return self._holdings.get(node, NO_HOLDINGS).items()

    def _limit_again(self) -> None:
        """Read what nodes limit once more under another configuration, which may name other device resources."""
        self._resources.set_open(device_resources(self.conf))
        for row in self._rows.values():
            if (node := self._nodes[row]) is not None:
                self._resources.set_node(row, node.allocatable)

    # Inter-pod constraints

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """Set the labels of a namespace, None if it is gone. A namespace that is not known has its name as label."""
        known = None if labels is None else dict(labels)
        if known == self._namespaces.get(name):
            return
        if known is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = known
        if self._placed is not None:
            self._placed.namespaces_changed()

    def _placed_pods(self) -> PlacedPods:
        """Return the pods on nodes; from the first call on they are kept up to date."""
        if self._placed is None:
            self._placed = PlacedPods(self._nodes, self._namespaces)
            self._placed.grow(self._cards.rows)
            for name, row in self._rows.items():
                for holding in self._holdings_on(name):
                    self._placed.charge(row, holding.tenant, 1)
        return self._placed

    # Usage

    def used(self, node: str) -> Resources:
        """Return the used amount of each resource that a node limits."""
        row = self._rows.get(node)
        return {} if row is None else self._resources.used(row)

    def used_amount(self, node: str, name: str) -> int:
        """Return how much of one resource of a node is used, 0 for an unknown node."""
        row = self._rows.get(node)
        return 0 if row is None else self._resources.used_amount(row, name)

    def used_cards(self, node: str) -> list[Usage]:
        """Return the usage of each card of a node, in the order of registration."""
        row = self._rows.get(node)
        return [] if row is None else self._cards.used(row)

    def card_state(self, node: str, name: str) -> list[int]:
        """Return a value that a family keeps for each card of a node (a name of its ``state``)."""
        row = self._rows.get(node)
        return [] if row is None else self._cards.state(row, name)

    # Rows

    def _view(self, rows: Ints) -> CardView:
        return self._cards.view(
            rows, lambda name: self._resources.allocatable(rows, name), lambda row: self._held_on(row)
        )

    def _held_on(self, row: int) -> Collection[Holding]:
        node = self._nodes[row]
        return self._holdings_on(node.name) if node is not None else ()

    def _put_in_order(self) -> None:
        """Rank the nodes by the configured tie order: of nodes with equal scores the first is chosen."""
        ranks = np.zeros(self._cards.rows, dtype=np.int64)
        names = sorted(self._rows, key=lambda name: (self._preference(name), self._ties.key(name)))
        ranks[[self._rows[name] for name in names]] = np.arange(len(names))
        self._order.ranks = ranks
        self._ordered = True

    def _name(self, row: int) -> str:
        node = self._nodes[row]
        assert node is not None
        return node.name
