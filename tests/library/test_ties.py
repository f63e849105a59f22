"""Which of equal nodes takes a pod."""

import pytest
from deviceshare.allocation import Allocator, Ties, parse_ties
from deviceshare.allocation.ties import LOWEST
from deviceshare.model import ConfigError
from support.builders import card, conf, node, vgpu

NAMES = [f"n{at}" for at in range(8)]


def order(ties: Ties, names: list[str]) -> list[str]:
    """Return in which order equal nodes are taken, one pod on each."""
    allocator = Allocator(conf("spread"), ties)
    for name in names:
        allocator.set_node(node(name, [card(0, node=name, slots=1)]))
    found = []
    for at in range(len(names)):
        placement = allocator.place(vgpu(1, 1))
        allocator.hold(placement.node, f"p{at}", placement.grants, placement.resources)
        found.append(placement.node)
    return found


def test_the_lowest_name_goes_first_by_default():
    assert order(LOWEST, NAMES[::-1]) == NAMES


def test_a_seed_makes_up_an_order_that_all_who_have_it_agree_on():
    seven = order(Ties(7), NAMES)
    assert sorted(seven) == NAMES != seven
    assert order(Ties(7), NAMES[::-1]) == seven
    assert order(Ties(8), NAMES) != seven


def test_a_node_that_goes_does_not_move_the_others():
    seven = order(Ties(7), NAMES)
    assert order(Ties(7), NAMES[1:]) == [name for name in seven if name != NAMES[0]]


def test_how_ties_are_written():
    assert (parse_ties("lowest"), parse_ties("seed:12")) == (LOWEST, Ties(12))
    for text in ("", "seed", "seed:", "seed:-1", "highest"):
        with pytest.raises(ConfigError, match="lowest, or seed:N"):
            parse_ties(text)
