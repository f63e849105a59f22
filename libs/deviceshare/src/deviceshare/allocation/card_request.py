"""One request of a pod for cards, and how device families answer it on many nodes at once.

Everything is vectorised over nodes. No code here is specific to a device family.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from deviceshare.allocation.diagnosis import everywhere
from deviceshare.allocation.first_failing import only, stages
from deviceshare.conf import SchedulerConf
from deviceshare.families import Check, Demand, ExpectedDemand, Family, Pick, Places
from deviceshare.kernels import CardSelector, UnregisteredSelector
from deviceshare.model import Card, ContainerGrant
from deviceshare.state import Bools, CardView, Codes, Ints

WITHOUT_CARDS = -1
"""Instead of the number of an answer: the node serves the request without cards (:attr:`Demand.or_whole`)."""


class CardChoice(msgspec.Struct, frozen=True, gc=False):
    """The number of an answer, and the columns and details of the chosen cards for each of the demand's ``cards``."""

    number: int
    chosen: list[list[tuple[int, int]]]


class CardSelectors(NamedTuple):
    """The kernels that answer a card request, each with the number of its answer; none if no cards are requested."""

    numbers: tuple[int, ...] = ()
    kernels: tuple[CardSelector, ...] = ()


class CardRequest:
    """One request of a pod for cards, and the families that answer it with their demands."""

    def __init__(self, answers: list[tuple[Family, Demand]]) -> None:
        self.answers = tuple(answers)
        self._counts = [cards.count for cards in answers[0][1].cards]

    def selectors(self, codes: Codes, conf: SchedulerConf) -> CardSelectors | None:
        """Return the kernels of the families with cards in the cluster.

        None: fall back to the NumPy path, since a family has no kernel for the demand, or no family has cards. No
        kernel: no node of the cluster serves the request with cards.
        """
        found: list[tuple[int, CardSelector]] = []
        for number, (family, demand) in enumerate(self.answers):
            if not family.modes or any(codes.kinds.modes.find(mode) > 0 for mode in family.modes):
                selector = family.selector(demand, codes, conf)
                if selector is None:
                    return None
                found.append((number, selector))
        whole = sorted(self._or_whole())
        if whole and any(codes.kinds.modes.find(mode) > 0 for mode in whole):
            unregistered = UnregisteredSelector(np.logical_or.reduce([codes.kinds.of_mode(mode) for mode in whole]))
            unregistered.scoring_fragmentation = conf.scoring.fragmentation
            unregistered.equivalence_key = tuple(whole)
            found.append((WITHOUT_CARDS, unregistered))
        return CardSelectors(*map(tuple, zip(*found, strict=True))) if found else None

    def answer(self, view: CardView, conf: SchedulerConf) -> tuple[Places, Ints]:
        """Return the best answer for each node of the view, and its number; charge it in the view."""
        able = [
            (number, family, demand)
            for number, (family, demand) in enumerate(self.answers)
            if not family.modes or bool(view.of_modes(family.modes).any())
        ]
        rows = view.mode.shape[0]
        plain = self._without_cards(view)
        if not able:
            nowhere = self._nowhere(rows)
            nowhere.fits |= plain
            return nowhere, np.where(plain, WITHOUT_CARDS, 0)
        (first, family, demand), *others = able
        charged = view.copy() if others else view
        best = family.place(demand, charged, conf)
        choice = np.full(rows, first, dtype=np.int64)
        for number, family, demand in others:
            trial = view.copy()
            places = family.place(demand, trial, conf)
            better = places.fits & (
                ~best.fits | (places.score > best.score) | ((places.score == best.score) & (places.waste < best.waste))
            )
            if better.any():
                choice[better] = number
                charged.block[better] = trial.block[better]
                _take(best, places, better)
        if others:
            view.block[:] = charged.block
        if plain.any():
            best.fits |= plain
            choice[plain] = WITHOUT_CARDS
        return best, choice

    def _or_whole(self) -> frozenset[str]:
        """Return the modes without which a node serves the request without cards; none: every node needs cards."""
        return frozenset().union(*(family.whole_modes for family, demand in self.answers if demand.or_whole))

    def _without_cards(self, view: CardView) -> Bools:
        """Return bool[R]: the nodes that serve the request without cards."""
        whole = self._or_whole()
        if not whole:
            return np.zeros(len(view.mode), dtype=np.bool_)
        found: Bools = ~np.logical_or.reduce(view.of_modes(whole), axis=1)
        return found

    def serves_without(self, cards: Iterable[Card]) -> bool:
        """Return whether a node with these cards serves the request without them."""
        whole = self._or_whole()
        return bool(whole) and not any(card.mode in whole for card in cards)

    def _nowhere(self, rows: int) -> Places:
        empty = [np.zeros((rows, count), dtype=np.int64) for count in self._counts]
        return Places(np.zeros(rows, dtype=np.bool_), empty, empty, np.zeros(rows), np.zeros(rows))

    def grants(
        self, answer: CardChoice, cards: tuple[Card, ...], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return the grants for a choice on a node with these cards."""
        if answer.number == WITHOUT_CARDS:
            return ()
        family, demand = self.answers[answer.number]
        picks = [[Pick(cards[column], detail) for column, detail in each] for each in answer.chosen]
        return family.grants(demand, picks, conf, expected)

    def checks(self, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the failed checks of each infeasible node, by the families whose cards the node has.

        Of several families the one counts for a node's first failing check under which it passes most checks.
        """
        total = len(view.mode)
        found: list[list[Check]] = []
        feasible = np.zeros(total, dtype=np.bool_)
        for rows, (family, demand) in self._askable(view):
            checks = [everywhere(check, rows, total) for check in family.checks(demand, view.part(rows), conf)]
            asked = np.zeros(total, dtype=np.bool_)
            asked[rows] = True
            feasible |= asked & ~np.logical_or.reduce([check.nodes for check in checks] or [~asked])
            found.append(checks)
        if len(found) < 2:
            return found[0] if found else []
        reached = np.stack([stages(checks, total) for checks in found])
        furthest = reached.argmax(axis=0)
        return [
            only(replace(check, nodes=check.nodes & ~feasible), ~feasible & (furthest == number))
            for number, checks in enumerate(found)
            for check in checks
            if (check.nodes & ~feasible).any()
        ]

    def _askable(self, view: CardView) -> list[tuple[Ints, tuple[Family, Demand]]]:
        """Return the answers with the rows of the view that have cards of their family.

        The first answer includes the nodes without cards of any family, so that each node is counted once; no answer
        includes nodes that serve the request without cards.
        """
        has = [view.of_modes(family.modes).any(axis=1) for family, _ in self.answers]
        has[0] = has[0] | ~np.logical_or.reduce(has)
        if self._or_whole():
            plain = self._without_cards(view)
            has = [rows & ~plain for rows in has]
        return [(np.flatnonzero(rows), answer) for rows, answer in zip(has, self.answers, strict=True) if rows.any()]


def _take(best: Places, other: Places, rows: Bools) -> None:
    """Replace an answer by another on some rows."""
    for mine, theirs in ((best.fits, other.fits), (best.score, other.score), (best.waste, other.waste)):
        mine[rows] = theirs[rows]
    for chosen, others in zip((*best.columns, *best.details), (*other.columns, *other.details), strict=True):
        chosen[rows] = others[rows]


def selectors_of(card_requests: Sequence[CardRequest], codes: Codes, conf: SchedulerConf) -> CardSelectors | None:
    """Return the kernels for a pod's card requests. None: fall back to the NumPy path, as for more than one request."""
    if len(card_requests) > 1:
        return None
    return card_requests[0].selectors(codes, conf) if card_requests else CardSelectors()
