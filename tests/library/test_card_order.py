"""The order of the cards of a row gives every pod the pick of a comparison of all its cards."""

import numpy as np
from deviceshare.kernels import CardCharges, CardOrder, Changes, NodeAmounts, NodeIndex, SharedCardSelector, TieOrder
from hypothesis import given
from hypothesis import strategies as st

ROWS = 2
KEYS = st.sampled_from([(-1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, -1), (-1, 2, 1)])
CARDS = st.lists(
    st.tuples(st.sampled_from([1, 2, 0]), st.integers(0, 4), st.integers(0, 3), st.sampled_from([1, 0, 3])),
    min_size=1,
    max_size=4,
)
REQUEST = st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([(1, 1), (0, 1), (1, 0)]))


def index(charges: CardCharges, key: tuple[int, int, int], request, order: CardOrder | None) -> NodeIndex:
    memory, cores, usable = request
    selector = SharedCardSelector(
        1, np.array([0, 6, 8]), np.array([0, memory, memory]), np.array([False, *usable], dtype=np.bool_)
    )
    selector.by_memory, selector.by_shares, selector.by_column = key
    selector.most_shares[:] = 2
    selector.most_cores = 4 - cores
    selector.fullness = 1.0
    selector.cards, selector.order = charges, order
    found = NodeIndex(TieOrder(), 0.0, 1.0)
    found.selectors = (selector,)
    found.best.grow(ROWS)
    return found


@given(KEYS, st.lists(REQUEST, min_size=1, max_size=3), st.data())
def test_it_is_the_order_in_which_all_cards_of_a_row_are_compared(key, requests, data) -> None:
    """Rows change, one gets wider, and classes of pods look at some of the changes each."""
    charges, changes = CardCharges(np.zeros((ROWS, 4, 2), dtype=np.int64)), Changes()
    changes.grow(ROWS)
    order, amounts = (
        CardOrder(charges, *key),
        NodeAmounts(np.zeros((ROWS, 1)).astype(int), np.zeros((ROWS, 1)).astype(int)),
    )
    pairs = [(index(charges, key, each, order), index(charges, key, each, None)) for each in requests]
    for _ in range(data.draw(st.integers(1, 10))):
        row, cards = data.draw(st.integers(0, ROWS - 1)), data.draw(CARDS)
        if len(cards) > charges.block.shape[2]:
            charges.block = np.pad(np.asarray(charges.block), ((0, 0), (0, 0), (0, 4 - charges.block.shape[2])))
        block = np.asarray(charges.block)
        block[row] = 0
        block[row, :, : len(cards)] = np.array(cards).T
        changes.touch(row)
        ordered, compared = data.draw(st.sampled_from(pairs))
        for each in (ordered, compared):
            each.evaluate(changes, changes.since(each.seen), amounts)
        ordered.seen = compared.seen = changes.now
        assert list(ordered.best.keys) == list(compared.best.keys)
