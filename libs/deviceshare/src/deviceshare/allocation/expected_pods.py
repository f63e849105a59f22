"""The pods that a cluster is expected to get, learned from those that it got: for the policy ``fragmentation``.

Each request that arrives is counted (:class:`deviceshare.kernels.Arrivals`). What it means for a card depends on the
kind of the card, and on whether its node admits the pod: cards that are equal in both share :class:`Typical` pods.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.card_supply import CardSupply
from deviceshare.allocation.node_filter import NodeFilter
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import Rule
from deviceshare.conf import SchedulerConf
from deviceshare.families import BY_NAME, FAMILIES, card_parts, types_accepted
from deviceshare.kernels import CARD, KIND, Arrivals, Changes, NodeFragmentation, Typical, TypicalPod, weight
from deviceshare.model import INIT, NodeFact
from deviceshare.state import Bools, CardTable, Ints, ResourceTable

MOST_RULES = 256
"""The most different node selectors (rules) of expected pods; pods with others count as admitted by every node."""
MOST_TYPICAL = 1024
"""The most different sets of typical pods; cards beyond do not count."""
MOST_COMPARED = 65_536
"""The most pairs of a rule and a node that are evaluated to order requests: decisions wait meanwhile."""


_GROWTH = 0.05
"""The part of all cards that are added or removed until the weights of requests are calculated again."""


class ExpectedRequest(NamedTuple):
    """What counts of a pod's request: CPU in millicores, and ``cards`` cards with MiB, or percent, and cores of each.

    ``families`` may answer it; none: every family. ``use`` and ``nouse`` are the models that the pod accepts;
    ``card_type`` is the only type of cards that serves it, '' for any.
    """

    cpu: int
    memory: int
    cards: int
    percentage: int = 0
    cores: int = 0
    families: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    nouse: tuple[str, ...] = ()
    card_type: str = ""
    rule: Rule | None = None

    @property
    def hardware(self) -> str:
        """The name of the hardware, '' for any."""
        return BY_NAME[self.families[0]].hardware.name if self.families else ""


def expected_request(pod_class: PodClass) -> ExpectedRequest | None:
    """Return what counts of the pods of a class, None if they request no cards.

    Of several containers, the largest amount counts for all cards; of several kinds of cards, the first one.
    """
    if not pod_class.card_requests:
        return None
    answers = pod_class.card_requests[0].answers
    demand = answers[0][1]
    running = [cards for cards in demand.cards if cards.stage != INIT] or list(demand.cards)
    whole = any(not (cards.memory or cards.memory_percentage) for cards in running)
    return ExpectedRequest(
        cpu=pod_class.cpu,
        memory=max(cards.memory for cards in running),
        cards=sum(cards.count for cards in running),
        percentage=100 if whole else max(cards.memory_percentage for cards in running),
        cores=max(cards.cores for cards in running),
        families=tuple(family.name for family, _ in answers),
        use=demand.use_types,
        nouse=demand.nouse_types,
        card_type=demand.card_type,
        rule=_normal(pod_class.rule),
    )


def _normal(rule: Rule) -> Rule:
    """Return a rule with the values of its node affinity in order and once: requests may differ in that alone."""
    terms = tuple(
        tuple(replace(each, values=tuple(sorted(set(each.values)))) for each in term) for term in rule.node_terms or ()
    )
    return rule if not terms or terms == rule.node_terms else replace(rule, node_terms=terms)


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
        self._supply = CardSupply(cluster.cards, cluster.resources, (), {})
        self._supplies: dict[ExpectedRequest, float] = {}
        """The share of all cards of its hardware that could serve a request."""
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
        if self._version == cluster.cards.version and not self._has_grown():
            if self._facts_version != cluster.facts.now:
                self._nodes_changed()
            return
        self._version = cluster.cards.version
        rules = dict.fromkeys(request.rule for request, _ in self._frequent if request.rule is not None)
        self._filters = [self._node_filter(rule) for rule in list(rules)[:MOST_RULES]]
        self._assign_all(conf)
        cluster.changes.touch_all()

    def _update(self) -> None:
        """Expect the most frequent requests. At once when it is due, so that they depend on the arrivals alone."""
        found = self._arrivals.frequent(_order, self._order_of_ties())
        if found is not None:
            self._frequent = found
            self.outdate()

    def _cpu_per_card(self) -> int:
        """Return the millicores of nodes with cards, for each card."""
        nodes = [node for node in self._cluster.nodes if node is not None and node.cards]
        cards = sum(len(node.cards) for node in nodes)
        return sum(node.allocatable.get("cpu", 0) for node in nodes) // max(cards, 1)

    def _has_grown(self) -> bool:
        """Return whether the weights of requests were calculated with many more cards than there are, or fewer."""
        cluster = self._cluster
        if self._facts_version == cluster.facts.now:
            return False
        usable = np.asarray(cluster.cards.kinds.usable, dtype=np.bool_)
        now = int(np.count_nonzero(usable[np.asarray(cluster.cards.block)[: len(cluster.nodes), KIND]]))
        return abs(now - self._supply.cards) > _GROWTH * self._supply.cards

    # What the expected pods mean for a card

    def _assign_all(self, conf: SchedulerConf) -> None:
        table = self._cluster.cards
        self._numbers, self._of_rows = {}, {}
        self._kinds = self._alike()
        self._supply = CardSupply(table, self._cluster.resources, self._cluster.nodes, self._kinds)
        self._supplies = {}
        rows, _, columns = table.block.shape
        of = np.full((rows, columns), -1, dtype=np.int64)
        self._typical = []
        self.fragmentation.expect(self._typical, of, card_parts(table, conf))
        self._assign(range(len(self._cluster.nodes)))

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
            of[row] = found

    def _number(self, kind: int, by_rule: bytes) -> int:
        """Return the number of the typical pods for cards of a kind, on a node that these rules admit; -1 for none."""
        alike = self._kinds.get(kind, -1)
        if alike < 0:
            return -1
        number = self._numbers.get((alike, by_rule))
        if number is None:
            number = len(self._typical) if len(self._typical) < MOST_TYPICAL else -1
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
        mode = self._mode(kind)
        hardware = self._hardware(kind)
        kinds = self._cluster.cards.kinds
        types = {"", kinds.types.names[kinds.type[kind]]}
        requests = [
            (request, pods)
            for request, pods in self._frequent
            if request.hardware in hardware and request.card_type in types
        ]
        accepts = {each.rule: bool(bit) for each, bit in zip(self._filters, by_rule, strict=True)}
        # Pods that need more than a whole card take other ones; of MIG cards they must not claim the smaller ones.
        partitioned = bool(self.fragmentation.parts.partitioned[kind])
        amounts = [self._amount(request, kind) for request, _ in requests]
        weights = [
            weight(pods, min(amount, CARD) * request.cards, self._supply_of(request))
            for (request, pods), amount in zip(requests, amounts, strict=True)
        ]
        total = sum(weights) or 1.0
        typical = []
        for (request, _), amount, weighted in zip(requests, amounts, weights, strict=True):
            served = mode in _modes(request)
            allowed = self._takes(request, kind) and (amount <= CARD or partitioned)
            allowed = allowed and (request.rule is None or accepts.get(request.rule, True))
            typical.append(
                TypicalPod(
                    weighted / total, request.cpu, min(amount, CARD + partitioned), request.cards if served else 0,
                    np.array([allowed], dtype=np.uint8),
                )
            )  # fmt: skip
        return Typical(typical)

    def _hardware(self, kind: int) -> set[str]:
        """Return the names of the hardware that a kind of cards is, and '', which stands for any."""
        mode = self._mode(kind)
        return {"", *(family.hardware.name for family in FAMILIES if mode in family.modes)}

    def _takes(self, request: ExpectedRequest, kind: int) -> bool:
        """Return whether pods accept the mode and the model of a kind of cards."""
        return self._mode(kind) in _modes(request) and self._accepts(request, kind)

    def _supply_of(self, request: ExpectedRequest) -> float:
        """Return the share of all cards of its hardware that could serve a request if all nodes were empty."""
        found = self._supplies.get(request)
        if found is None:
            hardware = {kind for kind in self._kinds.values() if request.hardware in self._hardware(kind)}
            serving = {kind for kind in hardware if self._takes(request, kind) and self._amount(request, kind) <= CARD}
            admitted = next((each.admitted for each in self._filters if each.rule == request.rule), None)
            found = self._supply.share(serving, hardware, request.cards, request.cpu, admitted)
            self._supplies[request] = found
        return found

    def _mode(self, kind: int) -> str:
        kinds = self._cluster.cards.kinds
        name: str = kinds.modes.names[kinds.mode[kind]]
        return name

    def _accepts(self, request: ExpectedRequest, kind: int) -> bool:
        """Return whether pods accept the model of a kind of cards."""
        if not (request.use or request.nouse):
            return True
        table = self._cluster.cards
        accepted: Bools = types_accepted(request.use, request.nouse, table.type_names)
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

        Where the rules are many, those beyond :data:`MOST_COMPARED` count as if they admitted every node.
        """
        kinds, nodes, alike = self._cluster.cards.kinds, len(self._cluster.nodes), self._alike()
        first = sorted(set(alike.values()), key=lambda kind: (kinds.types.names[kinds.type[kind]], kind))
        every = np.ones(len(kinds), dtype=np.bool_)
        admitting: dict[Rule, Bools] = {}

        def order(request: ExpectedRequest) -> tuple[bytes, str]:
            rule, admits = request.rule, every
            if rule is not None:
                if rule not in admitting and (len(admitting) + 1) * nodes <= MOST_COMPARED:
                    admitting[rule] = self._kinds_of(self._node_filter(rule), alike)
                admits = admitting.get(rule, every)
            return bytes(bool(admits[kind]) and self._accepts(request, kind) for kind in first), _rest(request)

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


def _modes(request: ExpectedRequest) -> frozenset[str]:
    """Return the modes of the cards that may serve a request."""
    families = [BY_NAME[name] for name in request.families] if request.families else FAMILIES
    return frozenset().union(*(family.modes for family in families))


def _order(request: ExpectedRequest) -> tuple[int, int, int]:
    return request.cpu, request.memory, request.cards


def _rest(request: ExpectedRequest) -> str:
    """Return the rest of a request as text, the same in every process: sets have no order."""
    rule = request.rule
    shown = "" if rule is None else f"{rule.node_selector}{rule.node_terms}{rule.tolerations}{sorted(rule.hardware)}"
    return f"{request[3:-1]}{shown}"
