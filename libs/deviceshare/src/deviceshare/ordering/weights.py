"""What queues deserve by their weights, set in their accounts.

Source: Volcano pkg/scheduler/plugins/proportion.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.ordering.book import Book
from deviceshare.ordering.capacity import capability
from deviceshare.ordering.proportion import Claimant, deserved
from deviceshare.ordering.rounds import deserved_by_rounds


def set_by_weight(books: Iterable[Book], total: Mapping[str, int], *, exact: bool) -> None:
    """Set what queues deserve of all that there is; ``exact`` or by Volcano's rounds."""
    # A queue that guarantees itself something counts though it has no pods.
    books = [book for book in books if book.pods or book.fact.guarantee]
    if exact:
        found = deserved(total, [_claimant(book) for book in books])
    else:
        guaranteed = sum((Counter(book.fact.guarantee) for book in books), Counter[str]())
        books = [book for book in books if book.pods]
        found = deserved_by_rounds(total, [_claimant(book) for book in books], guaranteed)
    for book, fair in zip(books, found, strict=True):
        book.deserved = fair


def _claimant(book: Book) -> Claimant:
    return Claimant(book.fact.weight, book.requested, capability(book.fact), book.fact.guarantee)
