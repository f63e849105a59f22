"""How many of the pods of each card have to go at least before a request may have it.

A bound: what it leaves out (the AI cores of templates, who shares with whom) counts as there.
"""

import numpy as np

from deviceshare.kernels import (
    CORES_USED,
    KIND,
    MEMORY_USED,
    SLOTS_USED,
    CardSelector,
    ChipSelector,
    SharedCardSelector,
)
from deviceshare.kernels.instances import InstanceSelector
from deviceshare.state import Bools, Ints

NEVER_ENOUGH = 2**31
"""More pods than a node has: the request does not fit even if all go."""
CARD_FIELDS = (MEMORY_USED, CORES_USED, SLOTS_USED)
"""What is known of the share that a pod has of a card."""


def least_of_cards(selector: CardSelector, block: Ints, cells: Ints, shares: Ints) -> Ints | None:
    """Return int64[rows, columns]: how many pods have to go of each card.

    :data:`NEVER_ENOUGH` where all are not enough. None for kernels without a bound.

    Args:
        selector: the kernel that picks cards.
        block: the cards, as in :class:`~deviceshare.state.CardTable`.
        cells: int64[n]: the card of each share, counted through rows and columns.
        shares: int64[n, 3]: what the pods that may go have of cards, by :data:`CARD_FIELDS`.
    """
    if isinstance(selector, InstanceSelector):
        return _least_of_instances(selector, block, cells, shares)
    if not isinstance(selector, SharedCardSelector | ChipSelector):
        return None
    kind = block[:, KIND]
    memory = np.asarray(selector.most_memory)[kind]
    cores = np.asarray(selector.most_cores)
    most = (memory, cores[kind] if cores.ndim else cores, np.asarray(selector.most_shares)[kind])
    of_card = _least_of_amounts(most, block, cells, shares, range(len(CARD_FIELDS)))
    return np.where(memory < 0, NEVER_ENOUGH, of_card)


def _least_of_amounts(most: tuple[Ints, ...], block: Ints, cells: Ints, shares: Ints, numbers: range) -> Ints:
    """Return the bound by what may be in ``most`` use of those fields of cards."""
    kind = block[:, KIND]
    of_card: Ints = np.zeros(kind.size, dtype=np.int64)
    for number, limit in zip(numbers, most, strict=True):
        lacking = (block[:, CARD_FIELDS[number]] - limit).reshape(-1)
        of_card = np.maximum(of_card, fewest(lacking, cells, shares[:, number]))
    return of_card.reshape(kind.shape)


def _least_of_instances(selector: InstanceSelector, block: Ints, cells: Ints, shares: Ints) -> Ints:
    """Return the bound of partitioned cards: one pod with an instance that is large enough, or all of the card.

    A card keeps its geometry while a pod has an instance of it.
    """
    kind, cut, used = block[:, KIND], block[:, selector.cut_field], block[:, selector.used_field]
    needed = np.asarray(selector.needed)[kind]
    pods = np.bincount(cells, minlength=kind.size).reshape(kind.shape)
    largest = np.zeros(kind.size, dtype=np.int64)
    np.maximum.at(largest, cells, shares[:, 0])
    fresh = np.asarray(selector.fresh_detail)[kind] >= 0
    emptied = np.where(fresh & (pods > 0), pods, NEVER_ENOUGH)
    of_card = np.where((largest.reshape(kind.shape) >= needed) & (pods > 0), 1, emptied)
    # The geometry that is left is known once some pod has gone.
    of_card = np.where(cut < 0, np.where(pods > 0, 1, NEVER_ENOUGH), of_card)
    of_card = np.where(_has_instance(selector, kind, cut, used) | ((cut == 0) & fresh), 0, of_card)
    usable: Bools = np.asarray(selector.usable).view(np.bool_)[kind]
    most = (np.asarray(selector.cores), np.asarray(selector.shares)[kind])
    of_card = np.maximum(of_card, _least_of_amounts(most, block, cells, shares, range(1, len(CARD_FIELDS))))
    return np.where(usable, of_card, NEVER_ENOUGH)


def _has_instance(selector: InstanceSelector, kind: Ints, cut: Ints, used: Ints) -> Bools:
    """Return bool[rows, columns]: whether a partitioned card has a free instance that is large enough."""
    tables = selector.geometries
    found: Bools = np.zeros(kind.shape, dtype=np.bool_)
    partitioned = np.nonzero((cut > 0) & np.asarray(selector.usable).view(np.bool_)[kind])
    kinds = kind[partitioned]
    numbers = np.asarray(tables.base)[kinds] + cut[partitioned]
    sizes = np.asarray(tables.sizes)[numbers]
    at = np.arange(sizes.shape[1])
    free = (at < np.asarray(tables.counts)[numbers][:, None]) & ((used[partitioned][:, None] >> at) & 1 == 0)
    found[partitioned] = (free & (sizes >= np.asarray(selector.needed)[kinds][:, None])).any(axis=1)
    return found


def fewest(lacking: Ints, places: Ints, amounts: Ints) -> Ints:
    """Return int64[P]: how many of a place's largest amounts are at least what it is ``lacking`` (int64[P]).

    ``places`` and ``amounts``: int64[n] each. :data:`NEVER_ENOUGH` where all are not enough.
    """
    short = lacking > 0
    found = np.zeros(len(lacking), dtype=np.int64)
    if not short.any():
        return found
    chosen = short[places] & (amounts > 0)
    places, amounts = places[chosen], amounts[chosen]
    # Sums of integers below 2^53, for which floats are exact.
    total = np.bincount(places, weights=amounts, minlength=len(lacking))
    count = np.bincount(places, minlength=len(lacking))
    found = np.minimum(count, 1)
    several = count[places] > 1
    places, amounts = places[several], amounts[several]
    order = np.lexsort((-amounts, places))
    places, amounts = places[order], amounts[order]
    before = np.cumsum(amounts) - amounts
    first = np.flatnonzero(np.diff(places, prepend=-1))
    before -= np.repeat(before[first], np.diff(first, append=len(places)))
    found = np.where(count > 1, np.bincount(places[before < lacking[places]], minlength=len(lacking)), found)
    return np.where(short, np.where(total >= lacking, found, NEVER_ENOUGH), 0)
