"""What queues may have, and what they deserve by the plugin ``capacity``, as their objects say. Pure arithmetic.

Source: Volcano pkg/scheduler/plugins/capacity (buildQueueAttrs; for hierarchies buildHierarchicalQueueAttrs and
checkHierarchicalQueue) and, for the bounds without hierarchies, proportion, where they are the same.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from math import inf

from deviceshare.facts import QueueFact
from deviceshare.ordering.book import Book
from deviceshare.resources import PODS


def set_bounds(books: Collection[Book], most: Mapping[str, int]) -> None:
    """Set the bounds of queues that have ``most`` together: their capability and what others are not guaranteed.

    A resource that ``most`` does not name has no bound but a capability. Pods have none at all.
    """
    guarantees: Counter[str] = Counter()
    for book in books:
        guarantees.update(book.fact.guarantee)
    for book in books:
        guarantee = book.fact.guarantee
        left = {
            name: max(0, most[name] - amount) + guarantee.get(name, 0)
            for name, amount in guarantees.items()
            if name in most and amount > guarantee.get(name, 0)
        }
        book.bound = capability(book.fact)
        book.guaranteed = frozenset(name for name, amount in left.items() if amount < book.bound.get(name, amount + 1))
        book.bound |= {name: left[name] for name in book.guaranteed}
        book.bound.pop(PODS, None)


def set_deserved(books: Iterable[Book], most: Mapping[str, int]) -> None:
    """Set what queues deserve that have ``most`` together: no more than they may have, no less than guaranteed."""
    for book in books:
        book.deserved = _deserved(book.fact, _smaller(most, book.bound))


def set_in_hierarchy(books: Collection[Book], root: Book, total: Mapping[str, int]) -> None:
    """Set the bounds of all queues that are below a root, and what they deserve.

    A root without a capability has no bound, and then nothing is kept back for what its children are guaranteed either.
    Where it has one, it has 0 of each resource that this does not name. What a queue deserves is not bounded by what it
    may have.
    """
    children: defaultdict[str, list[Book]] = defaultdict(list)
    for book in books:
        if book.above:
            children[book.above[0].fact.name].append(book)
    named = capability(root.fact)
    root.bound = (
        {name: named.get(name, 0) for name in named.keys() | total.keys() if name != PODS}
        if any(named.values())
        else {}
    )
    todo: list[tuple[Book, Mapping[str, int]]] = [(root, root.bound)]
    while todo:
        parent, most = todo.pop()
        below = children[parent.fact.name]
        set_bounds(below, most)
        for book in below:
            book.deserved = _deserved(book.fact, {})
            todo.append((book, _smaller(most, book.bound)))


def capability(fact: QueueFact) -> dict[str, int]:
    """Return a queue's capability. As in Volcano 0 of CPU or memory means no bound."""
    return {name: most for name, most in fact.capability.items() if most or name not in ("cpu", "memory")}


def _deserved(fact: QueueFact, most: Mapping[str, int]) -> dict[str, float]:
    names = fact.deserved.keys() | fact.guarantee.keys()
    return {
        name: max(min(fact.deserved.get(name, 0), most.get(name, inf)), fact.guarantee.get(name, 0)) for name in names
    }


def _smaller(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: min(amount, other.get(name, amount)) for name, amount in {**other, **one}.items()}
