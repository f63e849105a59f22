"""The allocator: the best node and its devices for a pod, or the reasons why there is none.

Pods with equal requests share a :class:`~.pod_class.PodClass`. Equivalent classes share a
:class:`~.node_ranking.NodeRanking`: feasibility and score of every node, and the best node. A placement first refreshes
the ranking for the nodes that changed, then chooses cards on the best node only. The loops over nodes and cards are
kernels (:mod:`deviceshare.kernels`). No code here is specific to a device family.
"""

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.answers import Placement, Unplaceable
from deviceshare.allocation.card_models import type_caveats, unit_caveats
from deviceshare.allocation.card_removals import NEVER_ENOUGH
from deviceshare.allocation.device_filter import DeviceFilter
from deviceshare.allocation.diagnosis import closest, counted, largest_cards, merged, with_largest
from deviceshare.allocation.expected_pods import Cluster, ExpectedPods
from deviceshare.allocation.first_failing import Models, first_failing, stages
from deviceshare.allocation.inter_pod import InterPod
from deviceshare.allocation.node_checks import (
    amount_checks,
    health_by_kubelet,
    kubelet_checks,
    model_checks,
    port_checks,
    state_checks,
)
from deviceshare.allocation.node_ranking import RankingCache
from deviceshare.allocation.node_table import NO_TENANT, NodeTable
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.pod_classes import PodClasses
from deviceshare.allocation.proportions import keep_all, proportion_checks
from deviceshare.allocation.removals import Removals
from deviceshare.allocation.resource_names import device_names
from deviceshare.allocation.ties import LOWEST, Ties
from deviceshare.allocation.volume_filter import VolumeFilter
from deviceshare.allocation.waiting_requests import WaitingRequests
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, ExpectedDemand
from deviceshare.kernels import NEVER, RowScan
from deviceshare.model import PodRequest, Tenant
from deviceshare.state import Bools, Ints


class Effort(msgspec.Struct):
    """How much work an allocator has done. A unit is about 50 µs; it is counted, so that it is the same in a replay."""

    deciding: int = 0
    explaining: int = 0


_ROWS_PER_UNIT, _TERMS_PER_UNIT, _ROWS_PER_DIAGNOSED_UNIT = 100, 8, 2
_MIN_DIAGNOSIS, _NEW_RANKING = 8, 8
"""Units of the diagnosis of a request on few nodes, and of reading a request that has no ranking."""


class Allocator(NodeTable):
    """Places pods on the nodes of a :class:`~.node_table.NodeTable`."""

    def __init__(self, conf: SchedulerConf, ties: Ties = LOWEST) -> None:
        super().__init__(conf, ties)
        self.devices.limit(conf.device_scope.nodes)
        self.work = Effort()
        self._expected = ExpectedDemand()
        self._pod_classes = PodClasses(conf)
        self._rankings = RankingCache(self._order, self._cards, self._resources)
        self._scan = RowScan()
        self._expected_pods: ExpectedPods | None = None
        """None until the policy fragmentation is configured, or a pod asks for it."""

    def set_configuration(self, conf: SchedulerConf) -> None:
        """Apply another configuration; holdings stay."""
        if conf == self.conf:
            return
        devices = conf.devices != self.conf.devices
        self.conf = conf
        self.devices.limit(conf.device_scope.nodes)
        self._pod_classes.set_configuration(conf)
        self._rankings = RankingCache(self._order, self._cards, self._resources)
        if self._expected_pods is not None:
            self._expected_pods.outdate()
        if devices:
            self._recount_all()
            self._limit_again()

    def expect(self, requests: Iterable[tuple[PodRequest, int]]) -> None:
        """Set the requests of the pods in the cluster, each with the number of its pods.

        Only affects how a fresh card is partitioned at grant time (:meth:`Family.grants
        <deviceshare.families.protocol.Family.grants>`), not the choice of nodes and cards, so rankings stay valid.
        """
        amounts: Counter[tuple[str, int]] = Counter()
        for request, pods in requests:
            for card_request in self._pod_classes.read(request).card_requests:
                for family, demand in card_request.answers:
                    for cards in demand.cards:
                        if cards.memory and not cards.memory_percentage:
                            amounts[family.name, cards.memory] += pods * cards.count
        expected = tuple((family, memory, count) for (family, memory), count in sorted(amounts.items()))
        self._expected = ExpectedDemand(expected)

    @property
    def learns(self) -> bool:
        """Whether pods are counted that arrive, for the policy ``fragmentation``."""
        return self._expected_pods is not None

    def learn(self) -> None:
        """Begin to count the pods that arrive; placing a pod by the policy ``fragmentation`` begins as well."""
        if self._expected_pods is None:
            self._expected_pods = ExpectedPods(self._cluster, lambda rule: self._rankings.node_filter(rule))

    def arrived(self, request: PodRequest) -> None:
        """Count a pod that arrived among those that are expected, if pods are counted."""
        if self._expected_pods is not None:
            self._expected_pods.arrived(self._pod_classes.read(request))

    def fragmentation(self, node: str) -> float:
        """Return the free capacity of a node that the expected pods could not use, in thousandths of a card.

        Begins to count arrivals as the policy does. 0 for an unknown node.
        """
        self._measure()
        row = self._rows.get(node)
        if row is None or self._expected_pods is None:
            return 0.0
        return self._expected_pods.fragmentation.lost_now(row)

    @property
    def _cluster(self) -> Cluster:
        return Cluster(self._cards, self._resources, self._nodes, self._changes, self._facts)

    def waiting_requests(self) -> WaitingRequests:
        """Return an empty set of requests that wait for nodes to change, under the current configuration."""
        return WaitingRequests(self._cluster, self._pod_classes.read, self._counted.modes)

    def pod_class(self, request: PodRequest) -> PodClass:
        """Return the handle of all pods with this request; :meth:`place` and the other methods take its ``request``.

        Equal requests share one handle while it is referenced. A caller with many pods gets the handle once for each
        pod, stores it, and compares requests by the identity of the handle.
        """
        return self._pod_classes.handle(request)

    # Placing

    def place(self, request: PodRequest) -> Placement | None:
        """Return the best node for a pod and its devices there, or None if no node is feasible.

        Charges nothing: :meth:`take` does. Ties break by least waste, then by the configured tie order.
        """
        pod_class = self._refreshed(request)
        self.work.deciding += 1
        if pod_class.unschedulable:
            return None
        if (inter_pod := pod_class.inter_pod) is not None:
            if inter_pod.rejection is not None:
                return None
            self.work.deciding += pod_class.terms // _TERMS_PER_UNIT
            row, feasible, weighted, bonus = inter_pod.best(pod_class.ranking, pod_class.bonus)
        else:
            row, bonus = pod_class.best()
            best = pod_class.ranking.node_index.best
            feasible, weighted = best.able, best.key(row) if row >= 0 else NEVER
        return self._placement(pod_class, row, feasible, weighted, bonus) if row >= 0 else None

    def place_on(self, node: str, request: PodRequest) -> Placement | None:
        """Return the devices for a pod on one node as :meth:`place` does, or None if the node is not feasible."""
        pod_class = self._refreshed(request)
        row = self._rows.get(node)
        if row is None or pod_class.unschedulable:
            return None
        weighted = pod_class.ranking.node_index.best.key(row)
        if weighted == NEVER:
            return None
        if (inter_pod := pod_class.inter_pod) is not None and (
            inter_pod.rejection is not None or inter_pod.checks(np.array([row]))
        ):
            return None
        return self._placement(pod_class, row, 1, weighted, 0.0)

    def _placement(self, pod_class: PodClass, row: int, feasible: int, weighted: float, bonus: float) -> Placement:
        score, chosen = pod_class.chosen(row, self._resources.amounts, self._view)
        grants = pod_class.grants(chosen, self._cards.cards[row], self._expected)
        # Kernels that are not compiled count in numpy's types, which no message can have. Positions are quicker to
        # read than names.
        placement = Placement(
            self._name(row), grants, pod_class.resources, int(feasible), score + bonus, float(weighted),
            pod_class.request.host_ports, pod_class.counted,
        )  # fmt: skip
        if (inter_pod := pod_class.inter_pod) is None:
            return placement
        devices = inter_pod.devices(row)
        return replace(
            placement,
            score=placement.score + devices.score,
            exclusive=inter_pod.exclusive,
            bindings=inter_pod.bindings(row),
            devices=devices.claims,
        )

    def removals(self) -> Removals:
        """Return an empty table of pods that might be removed; :meth:`least_removals` reads it."""
        return Removals(self._cluster, self._rows)

    def least_removals(self, request: PodRequest, removals: Removals, able: Bools) -> Ints:
        """Return for each row of nodes how many of the ``able`` pods go at least: see :meth:`.Removals.least`."""
        pod_class = self._refreshed(request)
        if pod_class.unschedulable:
            return np.full(len(self._nodes), NEVER_ENOUGH, dtype=np.int64)
        return removals.least(pod_class, able)

    def take(self, uid: str, placement: Placement, tenant: Tenant = NO_TENANT) -> None:
        """Charge a pod to the node and devices of a placement; replaces its holding on that node."""
        resources = placement.resources + placement.counted
        if placement.bindings:
            tenant = replace(tenant, bindings=placement.bindings)
        if placement.devices:
            tenant = replace(tenant, devices=self.devices.decided(tenant.devices, placement.devices))
        self.hold(placement.node, uid, placement.grants, resources, tenant, placement.ports)

    def amounts(self, request: PodRequest) -> tuple[tuple[str, int], ...]:
        """Return the node's own resources that a pod takes, and the amounts that nodes count in addition."""
        pod_class = self._pod_classes.read(request)
        return pod_class.resources + pod_class.counted

    def cards(self, request: PodRequest) -> int:
        """Return how many cards of its node a pod gets at most."""
        return sum(
            max(sum(cards.count for cards in demand.cards) for _, demand in card_request.answers)
            for card_request in self._pod_classes.read(request).card_requests
        )

    # Diagnosis

    def why_not(self, request: PodRequest, nodes: Collection[str] | None = None) -> Unplaceable:
        """Return all reasons why nodes are not feasible for a pod, counted over these ``nodes``, None: all."""
        pod_class = self._refreshed(request)
        names = self._rows.keys() if nodes is None else self._rows.keys() & set(nodes)
        self.work.explaining += _MIN_DIAGNOSIS + len(names) // _ROWS_PER_DIAGNOSED_UNIT
        if pod_class.problem is not None:
            return Unplaceable(self.nodes, (), pod_class.problem)
        if pod_class.unschedulable:
            return Unplaceable(self.nodes, pod_class.for_no_node())
        if pod_class.inter_pod is not None and (rejection := pod_class.inter_pod.rejection) is not None:
            return Unplaceable(self.nodes, (rejection,))
        # Sorted by name, so that the nearest node does not depend on the order in which nodes were added.
        rows = np.array([self._rows[name] for name in sorted(names)], dtype=np.int64)
        if not len(rows):
            return Unplaceable(0, ())
        view = self._view(rows) if pod_class.card_requests else None

        def name(row: int) -> str:
            return self._name(int(rows[row]))

        admitted = pod_class.ranking.node_filter.admitted[rows]
        checks = state_checks(pod_class.rule, [self._nodes[row] for row in rows.tolist()], admitted)
        models, types = self._cards.models[rows], self._cards.type_names
        if pod_class.models is not None:
            checks += model_checks(pod_class.models, types, models, pod_class.resources, self._resources, rows)
        checks += port_checks(pod_class.ports, self._ports, rows)
        checks += amount_checks(
            pod_class.resources, self._resources, rows, device_names(self.conf), self._offered_names()
        )
        checks += proportion_checks(pod_class.proportions, pod_class.resources, self._resources, rows)
        if pod_class.inter_pod is not None:
            checks += pod_class.inter_pod.checks(rows)
        of_cards = pod_class.checks(view) if view is not None else []
        if view is not None:
            families = [family for request in pod_class.card_requests for family, _ in request.answers]
            offered = frozenset[str]().union(*(family.resources(self.conf) for family in families))
            of_cards = health_by_kubelet(of_cards, [self._nodes[row] for row in rows.tolist()], offered)
            undecided = stages(of_cards, len(rows)) < 0
            checks += kubelet_checks(pod_class.of_devices, self._resources, rows, undecided, view)
        largest = largest_cards(of_cards, view, admitted)
        first = with_largest(first_failing(checks, of_cards, name, len(rows), Models(types, models, view)), largest)
        checks = merged([*checks, *of_cards])
        found = with_largest((counted(check, name, admitted) for check in checks), largest)
        near = closest(checks, view, name, admitted)
        return Unplaceable(self.nodes, found, closest=near, caveats=self.caveats(request), first_failing=first)

    def _offered_names(self) -> frozenset[str]:
        """Return the resources that some node has, itself or on its cards."""
        modes = self._cards.kinds.modes
        families = [family for family in FAMILIES if any(modes.find(mode) > 0 for mode in family.modes)]
        return frozenset(self._resources.names()).union(*(family.resources(self.conf) for family in families))

    def caveats(self, request: PodRequest) -> tuple[str, ...]:
        """Return the annotations of the pod that are interpreted leniently in this cluster, and doubtful amounts."""
        pod_class = self._pod_classes.read(request)
        if pod_class.caveats_at != self._cards.types_version:
            pod_class.caveats = type_caveats(
                request, self._cards.type_names, parts=self.conf.type_parts
            ) + unit_caveats(request)
            pod_class.caveats_at = self._cards.types_version
        return pod_class.caveats

    # Refreshing rankings

    def _refreshed(self, request: PodRequest) -> PodClass:
        """Return the class of a request, its ranking up to date unless no node can ever be feasible."""
        pod_class = self._pod_classes.use(request)
        if not pod_class.unschedulable:
            if pod_class.measured:
                self._measure()
            self._refresh(pod_class)
            if pod_class.inter_pod is None and pod_class.constrained:
                self.work.deciding += pod_class.terms
                pods = self._placed_pods() if pod_class.near_pods else None
                request = pod_class.request
                volumes = VolumeFilter(request, self.conf, self.volumes) if pod_class.has_volumes else None
                devices = DeviceFilter(request.devices, self.devices, pod_class.conf) if request.devices else None
                pod_class.inter_pod = InterPod(
                    request, self.conf, pods, volumes=volumes, devices=devices,
                    every_row=self.volumes.labels.every_row, scan=self._scan, changes=self._changes,
                )  # fmt: skip
            if pod_class.constrained:
                self._pod_classes.shrink(self._placed, self.devices)
        return pod_class

    def _measure(self) -> None:
        """Bring up to date by which fragmentation nodes and cards are chosen."""
        self.learn()
        assert self._expected_pods is not None
        self._rankings.fragmentation = self._expected_pods.fragmentation
        if len(self._rows):
            self._expected_pods.refresh(self.conf)

    def _refresh(self, pod_class: PodClass) -> None:
        if pod_class.version != (version := self._cards.version + self._resources.version):
            pod_class.resolve(self._rankings, version)
            self.work.deciding += _NEW_RANKING
        pod_class.ranking = pod_class.common
        self._refresh_ranking(pod_class)
        if pod_class.common.node_index.short_rows:
            pod_class.rank_alone(self._rankings)
            self._refresh_ranking(pod_class)

    def _refresh_ranking(self, pod_class: PodClass) -> None:
        changes = self._changes
        node_index = pod_class.ranking.node_index
        if node_index.seen == changes.now:
            return
        if not self._ordered:
            self._put_in_order()
        if node_index.facts_version != self._facts.now:
            pod_class.ranking.refresh(self._facts, self._nodes, pod_class.request)
        count = node_index.narrow(changes, self._resources.amounts, self._cards.charges)
        self.work.deciding += count // _ROWS_PER_UNIT
        if pod_class.ports:
            count = self._with_ports(pod_class, count)
        if pod_class.proportions:
            count = self._with_proportions(pod_class, count)
        self._evaluate(pod_class, count)
        if node_index.scores is not None and len(rows := node_index.scores.outdated()):
            np.asarray(changes.found)[: len(rows)] = rows
            self._evaluate(pod_class, len(rows))

    def _evaluate(self, pod_class: PodClass, count: int) -> None:
        """Score the first ``count`` rows of ``self._changes.found`` by their cards."""
        if not count:
            return
        node_index = pod_class.ranking.node_index
        if node_index.selectors is not None:
            node_index.evaluate(self._changes, count, self._resources.amounts)
        else:
            rows = np.array(self._changes.found[:count])
            pod_class.evaluate(rows, self._view(rows))

    def _with_ports(self, pod_class: PodClass, count: int) -> int:
        """Mark those of the first ``count`` rows of ``self._changes.found`` as infeasible where a port is in use.

        Moves the other rows to the front, and returns their number.
        """
        found = self._changes.found
        left = 0
        for row in np.array(found[:count]).tolist():
            if self._ports.free(row, pod_class.ports):
                found[left] = row
                left += 1
            else:
                pod_class.ranking.node_index.put(row, NEVER, 0.0)
        return left

    def _with_proportions(self, pod_class: PodClass, count: int) -> int:
        """Mark those of the first ``count`` rows of ``self._changes.found`` as infeasible that keep too little free.

        Moves the other rows to the front, and returns their number.
        """
        found = self._changes.found
        rows = np.array(found[:count], dtype=np.int64)
        kept = keep_all(pod_class.proportions, pod_class.resources, self._resources, rows)
        for row in rows[~kept].tolist():
            pod_class.ranking.node_index.put(row, NEVER, 0.0)
        left = rows[kept]
        np.asarray(found)[: len(left)] = left
        return len(left)
