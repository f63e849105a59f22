"""What every queue has, asks and may have; what of that every job has.

Source: Volcano pkg/scheduler/plugins/proportion and, for queues that say themselves what they deserve, capacity
(without hierarchies).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.conf.model import SchedulerConf
from deviceshare.facts import GroupKey, NodeFact, PodFact, QueueFact
from deviceshare.ordering.amounts import Amounts, Counting
from deviceshare.ordering.drf import dominant_share
from deviceshare.ordering.proportion import Claimant, deserved, share
from deviceshare.ordering.shortage import CAPABILITY, CLUSTER, DESERVED, GUARANTEED, OVERCOMMIT, Shortage

_ROUNDING = 1e-6
"""What a queue may have more than it deserves, of each unit, since that is no whole number."""


class Book:
    """The account of one queue. ``requested`` is what its pods have and ask together."""

    __slots__ = ("allocated", "bound", "committed", "deserved", "fact", "guaranteed", "pods", "requested")

    def __init__(self, name: str) -> None:
        self.fact = QueueFact(name=name)
        self.pods = 0
        self.allocated: Counter[str] = Counter()
        self.requested: Counter[str] = Counter()
        self.committed: Counter[str] = Counter()
        """What the groups that were let in need at least, and what pods without a PodGroup ask."""
        self.deserved: Mapping[str, float] = {}
        self.bound: dict[str, int] = {}
        """The most that it may have, whatever others ask."""
        self.guaranteed: frozenset[str] = frozenset()
        """Those of ``bound`` that stem from what others are guaranteed."""

    @property
    def share(self) -> float:
        """How much of what it deserves the queue has."""
        return share(self.allocated, self.deserved)


class _Entry:
    __slots__ = ("amounts", "book", "group", "held", "pod")

    def __init__(self, pod: PodFact, book: Book, group: GroupKey, amounts: Amounts) -> None:
        self.pod = pod
        self.book = book
        self.group = group
        self.amounts = amounts
        self.held = False


class Queues:
    """The accounts of all queues."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._books: dict[str, Book] = {}
        self._pods: dict[str, _Entry] = {}
        self._groups: dict[GroupKey, Counter[str]] = {}
        """What each PodGroup has."""
        self.lighter: set[GroupKey] = set()
        """PodGroups that have less than they had: their place in line may be another one."""
        self._committed: dict[GroupKey, tuple[Book, Mapping[str, int]]] = {}
        """What each group that was let in needs at least."""
        self._dirty = True
        self.nodes_version = 0
        """How often something was heard of a node."""
        self.counting = Counting(conf)
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Count by another configuration from now on; pods have to be put in again."""
        self.counting = Counting(conf, self.counting.nodes)
        self._by_weight, self._by_deserved = (
            conf.does(plugin, "Allocatable") or conf.does(plugin, "QueueOrder") for plugin in ("proportion", "capacity")
        )
        self._bounded = conf.does("proportion", "Allocatable") or conf.does("capacity", "Allocatable")
        self._ordered = conf.does("proportion", "QueueOrder") or conf.does("capacity", "QueueOrder")
        self._dirty = True

    # What is known

    def set_node(self, node: NodeFact) -> bool:
        """Count a node, or what changed of it; returns whether pods that wait may count something else now."""
        largest = self.counting.largest
        if self.counting.set_node(node):
            self._dirty = True
        return self._of_nodes_changed(largest)

    def remove_node(self, name: str) -> bool:
        """Count a node no more; returns whether pods that wait may count something else now."""
        largest = self.counting.largest
        if self.counting.remove_node(name):
            self._dirty = True
        return self._of_nodes_changed(largest)

    def _of_nodes_changed(self, largest: Mapping[str, int]) -> bool:
        self.nodes_version += 1
        if self.counting.largest is largest:
            return False
        # All memory of a card is another amount.
        for entry in list(self._pods.values()):
            self.put(entry.pod, entry.book.fact.name, entry.group)
        return True

    def set_queue(self, fact: QueueFact) -> None:
        """Enter a queue, or what changed of it."""
        self.book(fact.name).fact = fact
        self._dirty = True

    def remove_queue(self, name: str) -> None:
        """Forget a queue; what its pods have stays theirs."""
        self.set_queue(QueueFact(name=name))

    def book(self, name: str) -> Book:
        """Return the account of a queue, an empty one if nothing is known of it."""
        book = self._books.get(name)
        if book is None:
            book = self._books[name] = Book(name)
        return book

    def put(self, pod: PodFact, queue: str, group: GroupKey) -> None:
        """Enter a pod that has its place or asks for one, or what changed of it; what it was charged stays charged."""
        amounts = self.counting.held(pod.ask, pod.held) if pod.node else self.counting.asked(pod.ask)
        entry = self._pods.get(pod.uid)
        if entry is None or entry.book.fact.name != queue or entry.group != group or entry.amounts != amounts:
            held = entry is not None and entry.held
            self.drop(pod.uid)
            entry = self._pods[pod.uid] = _Entry(pod, self.book(queue), group, amounts)
            entry.book.pods += 1
            _add(entry.book.requested, amounts, 1)
            if group == f"pod/{pod.uid}":
                self.commit(group, queue, dict(amounts))
            self._dirty = True
            if held:
                self._charge(entry, held=True)
        entry.pod = pod

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        entry = self._pods.pop(uid, None)
        if entry is not None:
            if entry.held:
                self._charge(entry, held=False)
            entry.book.pods -= 1
            _add(entry.book.requested, entry.amounts, -1)
            if entry.group == f"pod/{uid}":
                self.release_commitment(entry.group)
            self._dirty = True

    def commit(self, group: GroupKey, queue: str, needs: Mapping[str, int]) -> None:
        """Let a group into its queue: what it needs at least counts there from now on, whether it has it or not."""
        before = self._committed.get(group)
        book = self.book(queue)
        if before is not None and before[0] is book and before[1] == needs:
            return
        self.release_commitment(group)
        self._committed[group] = (book, needs)
        _add(book.committed, needs.items(), 1)

    def release_commitment(self, group: GroupKey) -> None:
        """Take back what a group was promised when it was let in: it is gone, or needs nothing any more."""
        before = self._committed.pop(group, None)
        if before is not None:
            _add(before[0].committed, before[1].items(), -1)

    def hold(self, uid: str) -> None:
        """Charge a pod that was given its place to its queue."""
        entry = self._pods.get(uid)
        if entry is not None and not entry.held:
            self._charge(entry, held=True)

    def release(self, uid: str) -> None:
        """Give back what a pod was charged."""
        entry = self._pods.get(uid)
        if entry is not None and entry.held:
            self._charge(entry, held=False)

    def _charge(self, entry: _Entry, *, held: bool) -> None:
        sign = 1 if held else -1
        entry.held = held
        _add(entry.book.allocated, entry.amounts, sign)
        group = self._groups.get(entry.group)
        if group is None:
            group = self._groups[entry.group] = Counter()
        _add(group, entry.amounts, sign)
        if not held:
            self.lighter.add(entry.group)
        if not held and not any(group.values()):
            del self._groups[entry.group]

    # Questions

    @property
    def names(self) -> list[str]:
        """The names of the queues."""
        return list(self._books)

    def allocated(self, group: GroupKey) -> Mapping[str, int]:
        """Return what the pods of a group have."""
        return self._groups.get(group, _NOTHING)

    def dominant_share(self, group: GroupKey) -> float:
        """Return the dominant share of a group."""
        allocated = self._groups.get(group)
        return dominant_share(allocated, self.counting.total) if allocated else 0.0

    def order(self, name: str) -> tuple[float, float, float, str]:
        """Return a queue's place: by priority, by share, by age, by name."""
        book = self.book(name)
        if not self._ordered:
            return (0.0, 0.0, book.fact.created, name)
        return (-book.fact.priority, book.share, book.fact.created, name)

    def shortage(self, uid: str, *, beyond: bool = False) -> Shortage | None:
        """Return which bound a pod would carry its queue over, None for none.

        ``beyond``: it may pass what it deserves.
        """
        entry = self._pods.get(uid)
        if entry is None or not self._bounded:
            return None
        book, allocated = entry.book, entry.book.allocated
        for name, amount in entry.amounts:
            used = allocated[name]
            most = book.bound.get(name)
            if most is not None and used + amount > most:
                bound = GUARANTEED if name in book.guaranteed else CAPABILITY
                return Shortage(book.fact.name, bound, name, most, used, amount)
            fair = None if beyond or not self._by_weight else book.deserved.get(name)
            if fair is not None and used + amount > fair + _ROUNDING:
                return Shortage(book.fact.name, DESERVED, name, int(fair), used, amount)
        return None

    def allows(self, queue: str, resource: str, amount: int, *, beyond: bool) -> bool:
        """Return whether a queue may have so much more of a resource."""
        book = self.book(queue)
        amount += book.allocated[resource]
        fair = None if beyond or not self._by_weight else book.deserved.get(resource)
        return amount <= book.bound.get(resource, amount) and (fair is None or amount <= fair + _ROUNDING)

    def asked(self, pods: Iterable[PodFact]) -> Counter[str]:
        """Return what pods count together that have no cards yet."""
        found: Counter[str] = Counter()
        for pod in pods:
            _add(found, self.counting.asked(pod.ask), 1)
        return found

    def more_than_deserved(self, queue: str, amounts: Mapping[str, int]) -> set[str]:
        """Return of which resources a queue would have more than it deserves, if it had so much more."""
        return {name for name, amount in amounts.items() if not self.allows(queue, name, amount, beyond=False)}

    def short_of_capability(self, queue: str, needs: Mapping[str, int]) -> Shortage | None:
        """Return for want of what a queue cannot let a group in, None for nothing.

        A queue without a bound has the whole cluster; what the cluster has none of the nodes say themselves.
        """
        book = self.book(queue)
        for name, amount in needs.items():
            used, most = book.committed[name], book.bound.get(name, self.counting.total.get(name, 0) or None)
            if most is not None and amount and used + amount > most:
                bound = GUARANTEED if name in book.guaranteed else CAPABILITY if name in book.bound else CLUSTER
                return Shortage(queue, bound, name, most, used, amount, promised=True)
        return None

    def spoken_for(self) -> Counter[str]:
        """Return what all queues have, and what groups were promised and do not have yet."""
        found: Counter[str] = Counter()
        for book in self._books.values():
            _add(found, book.allocated.items(), 1)
        for group, (_, needs) in self._committed.items():
            _add(found, self.still_needed(group, needs).items(), 1)
        return found

    def still_needed(self, group: GroupKey, needs: Mapping[str, int]) -> Mapping[str, int]:
        """Return how much a group lacks of what it needs."""
        has = self.allocated(group)
        return {name: max(0, amount - has.get(name, 0)) for name, amount in needs.items()}

    def short_of_all(
        self, queue: str, needs: Mapping[str, int], factor: float, spoken_for: Mapping[str, int]
    ) -> Shortage | None:
        """Return for want of what the cluster cannot let a group in, None for nothing.

        All that is ``spoken_for`` may be ``factor`` times what there is.
        """
        for name, amount in needs.items():
            if amount and (has := self.counting.total.get(name, 0)):
                taken = spoken_for.get(name, 0)
                if taken + amount > has * factor:
                    return Shortage(queue, OVERCOMMIT, name, int(has * factor), taken, amount, promised=True)
        return None

    def refresh(self) -> None:
        """Work out what the queues deserve, if something changed that it depends on."""
        if not self._dirty:
            return
        self._dirty = False
        # A queue that guarantees itself something counts though it has no pods.
        books = [book for book in self._books.values() if book.pods or book.fact.guarantee]
        guarantees: Counter[str] = Counter()
        for book in books:
            guarantees.update(book.fact.guarantee)
        for book in self._books.values():
            _set_bounds(book, guarantees, self.counting.total)
        if self._by_weight:
            found = deserved(self.counting.total, [_claimant(book) for book in books])
            for book, fair in zip(books, found, strict=True):
                book.deserved = fair
        elif self._by_deserved:
            for book in books:
                names = book.fact.deserved.keys() | book.fact.guarantee.keys()
                fact = book.fact
                book.deserved = {name: max(fact.deserved.get(name, 0), fact.guarantee.get(name, 0)) for name in names}


_NOTHING: Mapping[str, int] = {}


def _set_bounds(book: Book, guarantees: Mapping[str, int], total: Mapping[str, int]) -> None:
    fact = book.fact
    left = {
        name: max(0, total.get(name, 0) - amount) + fact.guarantee.get(name, 0)
        for name, amount in guarantees.items()
        if amount > fact.guarantee.get(name, 0)
    }
    book.bound = _capability(fact)
    book.guaranteed = frozenset(name for name, most in left.items() if most < book.bound.get(name, most + 1))
    book.bound |= {name: left[name] for name in book.guaranteed}


def _claimant(book: Book) -> Claimant:
    return Claimant(book.fact.weight, book.requested, _capability(book.fact), book.fact.guarantee)


def _capability(fact: QueueFact) -> dict[str, int]:
    # As in Volcano a queue without any CPU or memory is one that says nothing of them.
    return {name: most for name, most in fact.capability.items() if most or name not in ("cpu", "memory")}


def _add(amounts: Counter[str], more: Iterable[tuple[str, int]], sign: int) -> None:
    for name, amount in more:
        amounts[name] += sign * amount
