"""What a pod's containers take of a card together, and how an ask with init containers is placed."""

import numpy as np
import pytest
from deviceshare.families import CardDemand, Demand
from deviceshare.families.common import Steps, charge, in_turn, place_one_by_one
from deviceshare.families.protocol import Picks
from deviceshare.model import INIT, SIDECAR, WHOLE, Card, ContainerGrant, DeviceGrant
from deviceshare.state import CardTable, Holding, Usage, shares_by_card, shares_on, total, usage_of
from hypothesis import given
from hypothesis import strategies as st

CARD = Card("GPU-0", 0, 10, 32768, 100, mode="hami-core")


def grant(position: int, memory: int, cores: int = 0, *, stage: str = "", card: str = "GPU-0") -> ContainerGrant:
    return ContainerGrant(f"c{position}", position, "hami-core", (DeviceGrant(card, 0, memory, cores),), stage)


def used(*grants: ContainerGrant) -> Usage:
    return usage_of(CARD, shares_by_card(grants).get(CARD.id, []))


def test_containers_and_sidecars_add_up():
    assert used(grant(0, 1000, 10), grant(1, 2000, 20), grant(0, 500, 5, stage=SIDECAR)) == (3500, 35, 3)


def test_an_init_container_counts_where_it_is_larger():
    assert used(grant(0, 1000, 10), grant(0, 4000, 5, stage=INIT)) == (4000, 10, 1)
    assert used(grant(0, 5000, 10), grant(0, 4000, 5, stage=INIT)) == (5000, 10, 1)


def test_init_containers_come_one_after_the_other():
    assert used(grant(0, 3000, stage=INIT), grant(1, 4000, stage=INIT)) == (4000, 0, 1)


def test_the_whole_card_is_all_of_its_memory():
    assert used(grant(0, WHOLE)).memory == CARD.memory


def test_other_cards_and_other_pods_are_kept_apart():
    one, other = Holding((grant(0, 1), grant(1, 2, card="GPU-1")), ()), Holding((grant(0, 4),), ())
    assert [[share.device.memory for share in pod] for pod in shares_on(CARD, [one, other])] == [[1], [4]]
    assert total([Usage(1, 2, 3), Usage(10, 20, 30)]) == (11, 22, 33)


amounts = st.integers(0, 8192)


@given(st.lists(amounts), st.lists(amounts), st.lists(amounts))
def test_the_larger_of_the_largest_init_container_and_the_sum(mains, sidecars, inits):
    grants = [
        grant(at, each, stage=stage)
        for stage, memories in (("", mains), (SIDECAR, sidecars), (INIT, inits))
        for at, each in enumerate(memories)
    ]
    assert used(*grants).memory == max(sum(mains) + sum(sidecars), max(inits, default=0))


@pytest.mark.parametrize(
    ("taken", "demands", "fits", "left"),
    [
        (0, [(4, ""), (8, INIT)], True, 2),
        (0, [(8, ""), (4, INIT)], True, 2),
        (0, [(4, ""), (4, ""), (8, INIT)], True, 2),
        (3, [(4, ""), (8, INIT)], False, None),
        (0, [(8, ""), (4, SIDECAR)], False, None),
        (0, [(11, INIT)], False, None),
    ],
)
def test_a_card_of_ten_is_charged_the_larger_part(taken, demands, fits, left):
    table = CardTable()
    table.set_cards(0, (Card("GPU-0", 0, 10, 10, 100, mode="x"),))
    table.charges.add(0, 0, taken, 0, 0)
    view = table.view(np.array([0]), lambda name: np.zeros(1, dtype=np.int64), lambda row: ())
    demand = Demand("x", tuple(CardDemand(1, memory, 0, stage=stage) for memory, stage in demands))

    def pick(cards: CardDemand) -> Picks:
        room = view.memory_used[:, :1] + cards.memory <= view.memory[:, :1]
        return Picks(room[:, 0], np.zeros((1, 1), dtype=np.int64), np.zeros(1))

    steps = Steps(
        in_turn(demand, view),
        pick,
        lambda cards, picks: charge(cards, view, picks),
        lambda cards: [],
        lambda cards: view.of_modes(["x"]),
    )
    places = place_one_by_one(view, steps)
    assert bool(places.fits[0]) is fits
    if left is not None:
        assert int(view.memory[0, 0] - view.memory_used[0, 0]) == left
