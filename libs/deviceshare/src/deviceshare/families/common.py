"""Functions that several families use: picking columns by a key, charging a view, counting failed checks."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from deviceshare.families.protocol import CardDemand, Check, Demand, Picks, Places
from deviceshare.kernels import CardCharges, CardSelector
from deviceshare.model import INIT, WHOLE, Card, DeviceGrant
from deviceshare.state import Bools, CardKinds, CardView, Ints

Floats = NDArray[np.float64]
_NEVER = np.int64(2**62)
_FIRST = np.int64(2**61)


def memory_asked(cards: CardDemand, view: CardView) -> Ints:
    """Return int64[R, D]: the MiB that the demand would take of each card."""
    return memory_of_kinds(cards, view.kinds)[view.kind]


def memory_of_kinds(cards: CardDemand, kinds: CardKinds) -> Ints:
    """Return int64[kinds]: the MiB that the demand would take of a card of each kind."""
    asked: Ints = kinds.memory
    if cards.memory_percentage:
        asked = kinds.memory * cards.memory_percentage // 100
    elif cards.memory:
        asked = np.full(len(kinds), cards.memory, dtype=np.int64)
    return asked


def memory_on(cards: CardDemand, card: Card) -> int:
    """Return the MiB that the demand would take of a card."""
    if cards.memory_percentage:
        return card.memory * cards.memory_percentage // 100
    return cards.memory or card.memory


def at_most(device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
    """Return a device with no more memory and cores than the demand would take of a card."""
    memory = device.memory
    if card is not None:
        limit = memory_on(asked, card)
    else:
        limit = memory if asked.memory_percentage or not asked.memory else asked.memory
    if memory > limit or (memory == WHOLE and asked.memory and limit != WHOLE):
        memory = limit
    return replace(device, memory=memory, cores=min(device.cores, asked.cores))


def essence(demand: Demand, **changes: int) -> Demand:
    """Return a demand for the cards of one container without the fields that do not affect which cards are picked.

    ``changes`` are fields of :class:`~deviceshare.families.CardDemand`, set to the same value for equivalent demands.
    """
    (cards,) = demand.cards
    return replace(demand, cards=(replace(cards, container="", position=0, **changes),), shares=())


def place_one_by_one(
    demand: Demand,
    view: CardView,
    pick: Callable[[CardDemand], Picks],
    charge: Callable[[CardDemand, Picks], None],
    turns: Iterable[CardDemand] | None = None,
) -> Places:
    """Place a demand container by container, each sees what the ones before it took (:func:`in_turn`).

    A family that implements the rule for init containers itself passes ``turns``: ``demand.cards``.
    """
    rows = view.mode.shape[0]
    places = Places(np.ones(rows, dtype=np.bool_), [], [], np.zeros(rows), np.zeros(rows))
    for cards in in_turn(demand, view) if turns is None else turns:
        picks = pick(cards)
        places.fits &= picks.fits
        places.columns.append(picks.columns)
        places.details.append(np.zeros_like(picks.columns) if picks.details is None else picks.details)
        if cards.stage != INIT:
            for term in np.atleast_2d(picks.score.T):
                places.score += term
        if picks.waste is not None:
            places.waste += picks.waste
        charge(cards, picks)
    places.score[~places.fits] = 0.0
    return places


def check_one_by_one(
    demand: Demand,
    pick: Callable[[CardDemand], Picks],
    charge: Callable[[CardDemand, Picks], None],
    checks: Callable[[CardDemand], list[Check]],
    turns: Iterable[CardDemand] | None = None,
) -> list[Check]:
    """Return the checks that each container fails, each sees what the ones before it took.

    ``turns`` has to be the same as for :func:`place_one_by_one`, which matters for init containers.
    """
    found = []
    for cards in demand.cards if turns is None else turns:
        picks = pick(cards)
        for check in checks(cards):
            nodes = check.nodes & ~picks.fits
            if nodes.any():
                found.append(replace(check, nodes=nodes))
        charge(cards, picks)
    return found


def in_turn(demand: Demand, view: CardView) -> Iterator[CardDemand]:
    """Yield the containers one after the other; the caller charges each in the view before it takes the next.

    An init container sees the view as it was before the pod, and prefers cards that the pod has already. In the end
    the view holds the maximum of each init container and the sum of the others.
    """
    mains = [cards for cards in demand.cards if cards.stage != INIT]
    inits = demand.cards[len(mains) :]
    before, shared_before = (view.block.copy(), view.slots_used.copy()) if inits else (view.block, view.slots_used)
    yield from mains
    if not inits:
        return
    peak = view.block.copy()
    view.preferred = view.slots_used > shared_before
    for cards in inits:
        view.block[:] = before
        yield cards
        np.maximum(peak, view.block, out=peak)
    view.block[:] = peak
    view.preferred = None


def picks_of(selector: CardSelector, view: CardView, allowed: Bools | None) -> Picks:
    """Return the picks of a kernel on every row of a view; ``allowed`` bool[R, D]: the cards that the pod accepts."""
    if allowed is not None:
        selector.restricted, selector.allowed = True, allowed.view(np.uint8)
    if view.preferred is not None:
        selector.preferring, selector.preferred = True, view.preferred.view(np.uint8)
    selector.cards = CardCharges(view.block)
    rows = len(view.block)
    fits, waste = np.zeros(rows, dtype=np.uint8), np.zeros(rows)
    columns, details = (np.zeros((rows, selector.count), dtype=np.int64) for _ in range(2))
    terms = np.zeros((rows, len(selector.terms)))
    selector.pick_rows(fits, columns, details, terms, waste)
    return Picks(fits.view(np.bool_), columns, terms, details, waste)


def choose(usable: Bools, key: Ints, count: int, preferred: Bools | None = None) -> tuple[Bools, Ints]:
    """Pick per row the ``count`` usable columns with the smallest keys (ties: lowest column), preferred ones first.

    ``key`` is int64[R, D] or int64[1, D]. Returns bool[R]: whether there are enough, and int64[R, count]: the columns
    in the order of their keys.
    """
    rows, columns = usable.shape
    if count > columns:
        return np.zeros(rows, dtype=np.bool_), np.zeros((rows, count), dtype=np.int64)
    fits = np.count_nonzero(usable, axis=1) >= count
    if preferred is not None:
        key = np.where(preferred, key - _FIRST, key)
    ranked = np.where(usable, key, _NEVER)
    if count == 1:
        return fits, ranked.argmin(axis=1)[:, None]
    return fits, ranked.argsort(axis=1, kind="stable")[:, :count]


def at(array: Ints, columns: Ints) -> Ints:
    """Return int64[R, count]: the values of the chosen columns of each row."""
    values: Ints = array[np.arange(len(columns))[:, None], columns]
    return values


def spread_score(fits: Bools, view: CardView) -> Floats:
    """Return float64[R]: the score under the policy spread, 100/(1 + shares on the node), 0 where infeasible."""
    return np.where(fits, 100.0 / (1 + view.slots_used.sum(axis=1)), 0.0)


def charge(cards: CardDemand, view: CardView, picks: Picks) -> None:
    """Charge memory, cores and a slot of each picked card in the view, on the feasible rows."""
    if cards.count > view.mode.shape[1]:
        return
    rows = np.flatnonzero(picks.fits)[:, None]
    columns = picks.columns[picks.fits]
    asked = memory_asked(cards, view)[rows, columns]
    view.memory_used[rows, columns] += asked
    view.cores_used[rows, columns] += cards.cores
    view.slots_used[rows, columns] += 1


def any_card(cards: Bools) -> Bools:
    """Return bool[R]: the rows with any of these cards."""
    found: Bools = np.count_nonzero(cards, axis=1) > 0
    return found


def most_free(free: Ints, candidates: Bools, failed: Bools, count: int) -> Ints:
    """Return int64[R]: the amount with which the row would have ``count`` cards that pass a check about an amount.

    ``free`` int64[R, D] is what each card has left. Candidates that do not fail the check pass already.
    """
    passing = np.count_nonzero(candidates & ~failed, axis=1)
    return nth_largest(free, failed, np.maximum(count - passing, 1))


def nth_largest(values: Ints, usable: Bools, count: Ints) -> Ints:
    """Return int64[R]: the ``count``-th (int64[R]) largest value among the usable columns of each row, at least 0.

    Where there are fewer usable columns it is the smallest of them, where there is none 0.
    """
    rows, columns = values.shape
    if not columns:
        return np.zeros(rows, dtype=np.int64)
    ranked = np.sort(np.where(usable, np.maximum(values, 0), -1), axis=1)
    take = columns - np.clip(np.count_nonzero(usable, axis=1), 1, count)
    found: Ints = np.maximum(ranked[np.arange(rows), take], 0)
    return found


def card_check(code: str, text: str, failed: Bools) -> Check:
    """Return a check that is a reason for each node with a card that fails it; ``failed`` is bool[R, D]."""
    counts = np.count_nonzero(failed, axis=1).astype(np.int64)
    return Check(code, text, counts > 0, counts, cards=failed)


def amount_check(
    code: str,
    text: str,
    failed: Bools,
    *,
    resource: str,
    asked: int,
    free: Ints,
    unit: str,
) -> Check:
    """Return a check about an amount; ``free`` int64[R] is the largest free amount."""
    counts = np.count_nonzero(failed, axis=1).astype(np.int64)
    return Check(code, text, counts > 0, counts, resource, asked, free, unit, failed)


def some(checks: Sequence[Check]) -> list[Check]:
    """Leave out the checks that no node fails."""
    return [check for check in checks if check.nodes.any()]
