"""Requests that fit no node, by what a node must have to serve them: which may fit after nodes have changed.

A node that has changed serves a request only if it has the resources, a card with the memory, and the label, the name,
the card or the resource that the request names. This is necessary, not sufficient, and found for all requests at once:
the cost of a change depends on the requests that it may serve, and hardly on the number of those that wait. Those that
are left are compared one by one with labels and models of cards (:mod:`.waiting_labels`), up to a bound: a decision
costs a hundred times as much.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

import numpy as np

from deviceshare.allocation.card_request import CardRequest
from deviceshare.allocation.expected_pods import Cluster
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import NAME_FIELD
from deviceshare.allocation.waiting_labels import is_short, may_serve
from deviceshare.kernels import KIND, MEMORY_USED
from deviceshare.model import NodeFact, PodRequest, Requirement
from deviceshare.state import PODS, Bools, Ints

MAX_SLOTS = 16
"""The most slots of one key; a key that would need more may be served by every change."""
_MAX_COMPARED = 16
"""Amounts that are compared: the memory of one card and resources; further resources count as sufficient."""
_FEW_ROWS = 32
"""Up to so many changed nodes are compared one by one, more of them only by the most that any has free."""
_MAX_MATCHED = 5000
"""Pairs of requests and nodes whose labels and models are compared for one change, of some 10 µs each."""

_Mark = tuple[str, ...]
"""What a node must have: a label, the key of one, its name, a card, or a resource."""
_NO_MARK: _Mark = ()
_ANYWHERE: _Mark = ("anywhere",)
"""The mark of requests for which other pods, or a change of one node, may make another node feasible."""


class WaitingRequests:
    """The requests of waiting pods under keys of the caller; a key is served if any of its requests may be.

    A slot is a request under one mark; a request that accepts several marks has a slot for each.

    Args:
        cluster: the nodes.
        read: returns the class of a request, read under the current configuration.
        recounted: the modes of cards whose usage is not the sum of what their pods request.
    """

    def __init__(self, cluster: Cluster, read: Callable[[PodRequest], PodClass], recounted: Collection[str]) -> None:
        self._cluster = cluster
        self._read = read
        self._recounted = recounted
        self._seen = cluster.changes.now
        """The number of the last change that was looked at."""
        self._slots: dict[Hashable, list[tuple[_Mark, int]]] = {}
        self._keys: list[Hashable] = []
        """The key of each slot."""
        self._pod_classes: list[PodClass | None] = []
        """The class of the request of each slot; None: its labels and models are not compared."""
        self._unused: list[int] = []
        self._by_mark: defaultdict[_Mark, dict[int, None]] = defaultdict(dict)
        self._columns: dict[str, int] = {}
        """The columns of resources in ``_wanted``."""
        self._wanted: Ints = np.zeros((0, _MAX_COMPARED), dtype=np.int64)
        """int64[slots, amounts]: what is wanted, first of all the MiB of one card."""

    def put(self, key: Hashable, requests: Iterable[PodRequest]) -> None:
        """Add a key with its requests, in place of those that it had."""
        self.discard(key)
        wanted: list[tuple[_Mark, list[int], PodClass | None]] = [
            (mark, self._amounts(pod_class), pod_class if is_short(pod_class) else None)
            for pod_class in map(self._read, requests)
            if not pod_class.unschedulable  # else no node of any cluster serves it
            for mark in self._marks(pod_class)
        ]
        if len(wanted) > MAX_SLOTS:
            wanted = [(_ANYWHERE, [0] * _MAX_COMPARED, None)]
        if wanted:
            self._slots[key] = [(slot[0], self._fill(key, *slot)) for slot in wanted]

    def discard(self, key: Hashable) -> None:
        """Remove a key, if present."""
        for mark, slot in self._slots.pop(key, ()):
            del self._by_mark[mark][slot]
            if not self._by_mark[mark]:
                del self._by_mark[mark]
            self._keys[slot] = self._pod_classes[slot] = None
            self._unused.append(slot)

    def served(self) -> list[Hashable]:
        """Return the keys that nodes may serve which have changed since the last call.

        Those with constraints about other pods or volumes may be served by any node, though none has changed.
        """
        changes, nodes = self._cluster.changes, self._cluster.nodes
        rows = np.array(changes.found[: changes.since(self._seen)], dtype=np.int64)
        self._seen = changes.now
        if not self._slots:
            return []
        changed = self._taking_pods(rows)
        marks = dict.fromkeys([_NO_MARK])
        for row in changed.tolist():
            if (node := nodes[row]) is not None:
                marks |= dict.fromkeys(_marks_of(node))
        slots = self._enough(changed, [slot for mark in marks for slot in self._by_mark.get(mark, ())])
        if len(slots) * len(changed) <= _MAX_MATCHED:
            taking = [node for row in changed.tolist() if (node := nodes[row]) is not None]
            slots = [slot for slot in slots if self._may_be_served(slot, taking)]
        if anywhere := self._by_mark.get(_ANYWHERE):
            slots += self._enough(self._taking_pods(np.arange(len(nodes))), [*anywhere])
        return list(dict.fromkeys(self._keys[slot] for slot in slots))

    # Slots

    def _amounts(self, pod_class: PodClass) -> list[int]:
        wanted = [0] * _MAX_COMPARED
        wanted[0] = max(map(_least_memory, pod_class.card_requests), default=0)
        for name, amount in pod_class.resources:
            if name not in self._columns and len(self._columns) < _MAX_COMPARED - 1 and self._exists(name):
                self._columns[name] = 1 + len(self._columns)
            if name in self._columns:
                wanted[self._columns[name]] = amount
        return wanted

    def _exists(self, name: str) -> bool:
        return self._cluster.resources.column(name) >= 0

    def _marks(self, pod_class: PodClass) -> Collection[_Mark]:
        """Return marks of which every node has one that serves the class."""
        unknown = [name for name, _ in pod_class.resources if not self._exists(name)]
        if unknown:
            return [("resource", unknown[0])]
        if pod_class.constrained:
            return [_ANYWHERE]
        rule = pod_class.rule
        by_term = [_named(term) for term in rule.node_terms or ()]
        if by_term and all(by_term):
            either = dict.fromkeys(mark for of_term in by_term for mark in of_term)
            if len(either) <= MAX_SLOTS:
                return list(either)
        for card_request in pod_class.card_requests:
            by_answer = [[("card", name) for name in demand.use_ids] for _, demand in card_request.answers]
            if by_answer and all(by_answer):
                cards: dict[_Mark, None] = dict.fromkeys(mark for of_answer in by_answer for mark in of_answer)
                if len(cards) <= MAX_SLOTS:
                    return list(cards)
        selected: list[_Mark] = [("label", *pair) for pair in rule.node_selector]
        # The mark under which the fewest others wait.
        return [min(selected, key=lambda mark: (len(self._by_mark.get(mark, ())), mark), default=_NO_MARK)]

    def _fill(self, key: Hashable, mark: _Mark, amounts: Sequence[int], pod_class: PodClass | None) -> int:
        if not self._unused:
            has = len(self._keys)
            more = max(64, has)
            self._wanted = np.pad(self._wanted, ((0, more), (0, 0)))
            self._keys += [None] * more
            self._pod_classes += [None] * more
            self._unused += range(has + more - 1, has - 1, -1)
        slot = self._unused.pop()
        self._keys[slot], self._pod_classes[slot] = key, pod_class
        self._wanted[slot] = amounts
        self._by_mark[mark][slot] = None
        return slot

    # Nodes

    def _may_be_served(self, slot: int, nodes: Sequence[NodeFact]) -> bool:
        pod_class = self._pod_classes[slot]
        return pod_class is None or any(may_serve(node, pod_class) for node in nodes)

    def _taking_pods(self, rows: Ints) -> Ints:
        """Return those of some rows whose node may take one more pod."""
        rows = rows[self._cluster.resources.free(rows, PODS) > 0]
        nodes = [self._cluster.nodes[row] for row in rows.tolist()]
        taking: Bools = np.array(
            [node is not None and node.ready and not node.paused for node in nodes], dtype=np.bool_
        )
        return rows[taking]

    def _enough(self, rows: Ints, slots: Sequence[int]) -> list[int]:
        """Return the slots for which one of some rows has enough."""
        if not len(rows) or not slots:
            return []
        free, chosen = self._free(rows), np.array(slots, dtype=np.int64)
        chosen = chosen[(self._wanted[chosen] <= free.max(axis=0)).all(axis=1)]
        if 1 < len(rows) <= _FEW_ROWS and len(chosen):
            wanted = self._wanted[chosen]
            chosen = chosen[np.logical_or.reduce([(wanted <= each).all(axis=1) for each in free])]
        found: list[int] = chosen.tolist()
        return found

    def _free(self, rows: Ints) -> Ints:
        """Return int64[R, amounts]: what each row has free, and has on one card."""
        cards, resources = self._cluster.cards, self._cluster.resources
        free = np.zeros((len(rows), _MAX_COMPARED), dtype=np.int64)
        kind, kinds = cards.block[rows, KIND], cards.kinds
        recounted = np.zeros(len(kinds), dtype=np.bool_)
        for mode in self._recounted:
            recounted |= kinds.of_mode(mode)
        used = np.where(recounted[kind], 0, cards.block[rows, MEMORY_USED])
        free[:, 0] = (kinds.memory[kind] - used).max(axis=1, initial=0)
        for name, column in self._columns.items():
            free[:, column] = resources.free(rows, name)
        return free


def _least_memory(card_request: CardRequest) -> int:
    """Return the MiB that every answer to a request needs on one card, at least."""
    return min(
        0
        if demand.or_whole
        else max((cards.memory for cards in demand.cards if not cards.memory_percentage), default=0)
        for _, demand in card_request.answers
    )


def _named(term: Iterable[Requirement]) -> list[_Mark]:
    """Return marks of which every node has one that a term matches; none if the term names none."""
    for requirement in term:
        if requirement.operator == "In" and requirement.field and requirement.key == NAME_FIELD:
            return [("node", value) for value in requirement.values]
        if requirement.operator == "In" and not requirement.field:
            return [("label", requirement.key, value) for value in requirement.values]
        if requirement.operator in ("Exists", "Gt", "Lt") and not requirement.field:
            return [("key", requirement.key)]
    return []


def _marks_of(node: NodeFact) -> Iterator[_Mark]:
    """Yield the marks that a node has."""
    yield "node", node.name
    for pair in node.labels.items():
        yield "label", *pair
        yield "key", pair[0]
    for card in node.cards:
        yield "card", card.id
    for name in node.allocatable:
        yield "resource", name
