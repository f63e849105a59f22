"""The pods that a cluster is expected to get, learned from those that it got: for the policy ``fragmentation``.

Each request that arrives is counted (:class:`deviceshare.kernels.Arrivals`). Its weight depends on the part of all
cards that could serve it (:class:`~.card_supply.CardSupply`). What it means for a card depends on the kind of the card,
and on whether its node admits the pod: cards that are equal in both share :class:`Typical` pods.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from deviceshare.allocation.card_supply import CardSupply
from deviceshare.allocation.expected_request import ExpectedRequest, expected_request, modes_for, rest_of, size_of
from deviceshare.allocation.node_filter import NodeFilter
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import Rule
from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, card_parts, types_accepted
from deviceshare.kernels import CARD, KIND, Arrivals, Changes, NodeFragmentation, Typical, TypicalPod, expected_weight
from deviceshare.model import NodeFact
from deviceshare.state import Bools, CardTable, Ints, ResourceTable

MAX_RULES = 256
"""The most different node selectors (rules) of expected pods; pods with others count as admitted by every node."""
MAX_TYPICAL = 1024
"""The most different sets of typical pods; cards beyond do not count."""
MAX_COMPARED = 65_536
"""The most pairs of a rule and a node that are evaluated to order requests: decisions wait meanwhile."""
SUPPLY_CHANGE = 0.05
"""The part of all cards on nodes that change until supplies are calculated again, and the part by which one of the
weights has to change then: all scores are computed again."""


class _KindRequest(NamedTuple):
    """What an expected request means for a kind of cards.

    ``amount``: of each card, in thousandths; ``share``: of the weights of all requests for this hardware; ``cards``: 0
    if cards of the mode of the kind do not serve it; ``accepted``: whether the pods accept cards of this kind.
    """

    request: ExpectedRequest
    amount: int
    share: float
    cards: int
    accepted: bool


class Cluster(NamedTuple):
    """The tables of the allocator, and its changes."""

    cards: CardTable
    resources: ResourceTable
    nodes: Sequence[NodeFact | None]
    changes: Changes
    facts: Changes


class ExpectedPods:
    """Learns the expected pods, and keeps ``fragmentation`` up to date with them and with the nodes."""

    def __init__(self, cluster: Cluster, node_filter: Callable[[Rule], NodeFilter]) -> None:
        self._cluster = cluster
        self._node_filter = node_filter
        cpu = cluster.resources.reserve("cpu")
        self.fragmentation = NodeFragmentation(cluster.changes, cluster.cards.charges, cluster.resources.amounts, cpu)
        self._arrivals: Arrivals[ExpectedRequest] = Arrivals()
        self._requests: WeakKeyDictionary[PodClass, tuple[int, ExpectedRequest | None]] = WeakKeyDictionary()
        """What counts of a class, as of the generation of its configuration."""
        self._frequent: list[tuple[ExpectedRequest, float]] = []
        """The expected requests and the number of their pods; none before the first use."""
        self._filters: list[NodeFilter] = []
        self._version = -1
        self._facts_version = -1
        self._kinds: dict[int, int] = {}
        self._numbers: dict[tuple[int, bytes], int] = {}
        """The number of the typical pods by kind of card (the number of the first kind that is alike) and the rules
        that admit its node."""
        self._typical: list[Typical] = []
        self._of_kinds: dict[int, list[_KindRequest]] = {}
        """What the expected requests mean for each first kind of those that are alike."""
        self._supplies: dict[ExpectedRequest, float] = {}
        """The share of all cards of its hardware that could serve each expected request."""
        self._cards = 0
        """The usable cards when the supplies were calculated."""
        self._changed_cards = 0
        """The cards on nodes that changed since then."""
        self._of_rows: dict[bytes, Ints] = {}
        """The numbers of a row's cards by its kinds and the rules that admit it."""

    def arrived(self, pod_class: PodClass) -> None:
        """Count a pod."""
        generation, request = self._requests.get(pod_class, (-1, None))
        if generation != pod_class.generation:
            request = expected_request(pod_class)
            self._requests[pod_class] = pod_class.generation, request
        if self._arrivals.count(request) and self._frequent:
            self._update()

    def outdate(self) -> None:
        """Read the configuration again in the next :meth:`refresh`."""
        self._version = -1

    def refresh(self, conf: SchedulerConf) -> None:
        """Bring what the expected pods mean for each card up to date."""
        cluster = self._cluster
        if not self._frequent:
            prior = ExpectedRequest(self._cpu_per_card(), 0, 1, percentage=100)
            self._frequent = self._arrivals.expect(prior)
            if self._arrivals.due:
                self._update()
        if self._version == cluster.cards.version:
            if self._facts_version != cluster.facts.now:
                self._nodes_changed()
            if self._changed_cards > SUPPLY_CHANGE * self._cards:
                self._check_supplies()
        if self._version == cluster.cards.version:
            return
        self._version = cluster.cards.version
        rules = dict.fromkeys(request.rule for request, _ in self._frequent if request.rule is not None)
        self._filters = [self._node_filter(rule) for rule in list(rules)[:MAX_RULES]]
        self._assign_all(conf)
        cluster.changes.touch_all()

    def _update(self) -> None:
        """Expect the most frequent requests. At once when it is due, so that they depend on the arrivals alone."""
        found = self._arrivals.frequent(size_of, self._order_of_ties())
        if found is not None:
            self._frequent = found
            self.outdate()
        else:
            # Slower changes of the nodes count as well, after a while.
            self._changed_cards += self._cards

    def _cpu_per_card(self) -> int:
        """Return the millicores of nodes with cards, for each card."""
        nodes = [node for node in self._cluster.nodes if node is not None and node.cards]
        cards = sum(len(node.cards) for node in nodes)
        return sum(node.allocatable.get("cpu", 0) for node in nodes) // max(cards, 1)

    # The supply of each request

    def _calculated_supplies(self) -> dict[ExpectedRequest, float]:
        """Return the supply of each expected request as of now."""
        cluster = self._cluster
        for each in self._filters:
            each.refresh(cluster.facts, cluster.nodes)
        supply = CardSupply(cluster.cards, cluster.resources, cluster.nodes, self._kinds)
        self._cards, self._changed_cards = supply.cards, 0
        admitted: dict[Rule | None, Bools] = {each.rule: each.admitted for each in self._filters}
        return {request: self._supply_of(request, supply, admitted.get(request.rule)) for request, _ in self._frequent}

    def _supply_of(self, request: ExpectedRequest, supply: CardSupply, admitted: Bools | None) -> float:
        """Return the share of all cards of its hardware that could serve a request if all nodes were empty.

        1 for a request that cards may serve which the kubelet chooses: they are not in the table.
        """
        if request.or_whole:
            return 1.0
        hardware = {kind for kind in self._kinds.values() if request.hardware in self._hardware(kind)}
        serving = {
            kind for kind in hardware if self._is_served_by(request, kind) and self._amount(request, kind) <= CARD
        }
        return supply.share(serving, hardware, request.cards, request.cpu, admitted)

    def _check_supplies(self) -> None:
        """Calculate the supplies again, and all that depends on them if a weight changed much."""
        before, now = self._supplies, self._calculated_supplies()
        for request, supply in now.items():
            was, weight = (expected_weight(1.0, CARD, each) for each in (before[request], supply))
            if abs(weight - was) > SUPPLY_CHANGE * was:
                self.outdate()
                return

    # What the expected pods mean for a card

    def _assign_all(self, conf: SchedulerConf) -> None:
        table = self._cluster.cards
        self._numbers, self._of_rows = {}, {}
        self._kinds = self._alike()
        self._of_kinds = {}
        rows, _, columns = table.block.shape
        of = np.full((rows, columns), -1, dtype=np.int64)
        self._typical = []
        self.fragmentation.expect(self._typical, of, card_parts(table, conf))
        self._supplies = self._calculated_supplies()
        self._assign(range(len(self._cluster.nodes)))
        self._changed_cards = 0

    def _nodes_changed(self) -> None:
        """Assign the cards of nodes whose facts changed; the table may have more rows or columns than before."""
        facts, table, before = self._cluster.facts, self._cluster.cards, self.fragmentation
        rows = np.array(facts.found[: facts.since(self._facts_version)]).tolist()
        of = np.asarray(before.of)
        more = [(0, has - had) for has, had in zip((len(table.block), table.block.shape[2]), of.shape, strict=True)]
        if any(each for _, each in more):
            before.expect(self._typical, np.pad(of, more, constant_values=-1), before.parts)
        self._assign(rows)

    def _assign(self, rows: Sequence[int]) -> None:
        cluster, of = self._cluster, np.asarray(self.fragmentation.of)
        admitted = np.zeros((len(self._filters), len(rows)), dtype=np.uint8)
        index = np.array(rows, dtype=np.int64)
        for at, each in enumerate(self._filters):
            each.refresh(cluster.facts, cluster.nodes)
            admitted[at] = each.admitted[index]
        self._facts_version = cluster.facts.now
        for at, row in enumerate(rows):
            kinds, by_rule = cluster.cards.block[row, KIND], admitted[:, at].tobytes()
            key = kinds.tobytes() + by_rule
            found = self._of_rows.get(key)
            if found is None:
                found = np.array([self._number(kind, by_rule) for kind in kinds.tolist()], dtype=np.int64)
                self._of_rows[key] = found
            self._changed_cards += int(np.count_nonzero((of[row] >= 0) | (found >= 0)))
            of[row] = found

    def _number(self, kind: int, by_rule: bytes) -> int:
        """Return the number of the typical pods for cards of a kind, on a node that these rules admit; -1 for none."""
        alike = self._kinds.get(kind, -1)
        if alike < 0:
            return -1
        number = self._numbers.get((alike, by_rule))
        if number is None:
            number = len(self._typical) if len(self._typical) < MAX_TYPICAL else -1
            self._numbers[alike, by_rule] = number
            if number >= 0:
                self._typical.append(self._typical_pods(alike, by_rule))
        return number

    def _alike(self) -> dict[int, int]:
        """Return for each kind of usable cards the first kind that differs from it in nothing that matters."""
        kinds = self._cluster.cards.kinds
        first: dict[tuple[int, ...], int] = {}
        found = {}
        for kind in range(1, len(kinds)):
            if kinds.usable[kind]:
                same = tuple(int(each[kind]) for each in (kinds.mode, kinds.type, kinds.memory, kinds.cores))
                found[kind] = first.setdefault(same, kind)
        return found

    def _typical_pods(self, kind: int, by_rule: bytes) -> Typical:
        """Return the expected pods for cards of a kind, on a node that these rules admit."""
        if kind not in self._of_kinds:
            self._of_kinds[kind] = self._requests_of_kind(kind)
        admits: dict[Rule | None, bool] = {
            each.rule: bool(bit) for each, bit in zip(self._filters, by_rule, strict=True)
        }
        # Pods that need more than a whole card take other ones; of MIG cards they must not claim the smaller ones.
        partitioned = bool(self.fragmentation.parts.partitioned[kind])
        typical = []
        for request, amount, share, cards, accepted in self._of_kinds[kind]:
            allowed = accepted and (amount <= CARD or partitioned) and admits.get(request.rule, True)
            allows = np.array([allowed], dtype=np.uint8)
            taken = min(amount, CARD + partitioned)
            typical.append(TypicalPod(share, request.cpu, taken, cards, allows, self._supplies[request]))
        return Typical(typical)

    def _requests_of_kind(self, kind: int) -> list[_KindRequest]:
        """Return what the expected requests for the hardware and the type of a kind of cards mean for it."""
        hardware, mode = self._hardware(kind), self._mode(kind)
        kinds = self._cluster.cards.kinds
        types = {"", kinds.types.names[kinds.type[kind]]}
        found, weights = [], []
        for request, pods in self._frequent:
            if request.hardware in hardware and request.card_type in types:
                amount = self._amount(request, kind)
                weights.append(expected_weight(pods, min(amount, CARD) * request.cards, self._supplies[request]))
                served = mode in modes_for(request)
                accepted = served and self._accepts(request, kind)
                found.append(_KindRequest(request, amount, 0.0, request.cards if served else 0, accepted))
        total = sum(weights) or 1.0
        return [each._replace(share=weight / total) for each, weight in zip(found, weights, strict=True)]

    def _hardware(self, kind: int) -> set[str]:
        """Return the names of the hardware that a kind of cards is, and '', which stands for any."""
        mode = self._mode(kind)
        return {"", *(family.hardware.name for family in FAMILIES if mode in family.modes)}

    def _is_served_by(self, request: ExpectedRequest, kind: int) -> bool:
        """Return whether cards of the mode, the type and the model of a kind serve pods."""
        kinds = self._cluster.cards.kinds
        of_type = request.card_type in ("", kinds.types.names[kinds.type[kind]])
        return of_type and self._mode(kind) in modes_for(request) and self._accepts(request, kind)

    def _mode(self, kind: int) -> str:
        kinds = self._cluster.cards.kinds
        name: str = kinds.modes.names[kinds.mode[kind]]
        return name

    def _accepts(self, request: ExpectedRequest, kind: int) -> bool:
        """Return whether pods accept the model of a kind of cards."""
        if not (request.use or request.nouse):
            return True
        table = self._cluster.cards
        accepted: Bools = types_accepted(request.use, request.nouse, table.type_names, parts=request.type_parts)
        return bool(accepted[table.kinds.type[kind]])

    def _amount(self, request: ExpectedRequest, kind: int) -> int:
        """Return what pods take of a card, in thousandths: the larger share of memory and cores."""
        kinds = self._cluster.cards.kinds
        memory, cores = int(kinds.memory[kind]), int(kinds.cores[kind])
        of_cores = -(-CARD * request.cores // cores) if cores else 0
        if not memory:
            return of_cores or CARD
        of_memory = CARD * request.percentage // 100 or -(-CARD * request.memory // memory)
        return max(of_memory, of_cores, 1)

    def _order_of_ties(self) -> Callable[[ExpectedRequest], tuple[bytes, str]]:
        """Return the order of equally frequent, equally large requests: by the kinds of cards that pods accept.

        Where the rules are many, those beyond :data:`MAX_COMPARED` count as if they admitted every node.
        """
        kinds, nodes, alike = self._cluster.cards.kinds, len(self._cluster.nodes), self._alike()
        first = sorted(set(alike.values()), key=lambda kind: (kinds.types.names[kinds.type[kind]], kind))
        every = np.ones(len(kinds), dtype=np.bool_)
        admitting: dict[Rule, Bools] = {}

        def order(request: ExpectedRequest) -> tuple[bytes, str]:
            rule, admits = request.rule, every
            if rule is not None:
                if rule not in admitting and (len(admitting) + 1) * nodes <= MAX_COMPARED:
                    admitting[rule] = self._kinds_of(self._node_filter(rule), alike)
                admits = admitting.get(rule, every)
            return bytes(bool(admits[kind]) and self._accepts(request, kind) for kind in first), rest_of(request)

        return order

    def _kinds_of(self, admitting: NodeFilter, alike: dict[int, int]) -> Bools:
        """Return bool[kinds]: the kinds of cards on the nodes that a rule admits, by the first kind that is alike."""
        cluster = self._cluster
        admitting.refresh(cluster.facts, cluster.nodes)
        found = np.zeros(len(cluster.cards.kinds), dtype=np.bool_)
        rows = np.flatnonzero(admitting.admitted)
        for kind in np.unique(cluster.cards.block[rows[rows < len(cluster.cards.block)], KIND]).tolist():
            if kind in alike:
                found[alike[kind]] = True
        return found
