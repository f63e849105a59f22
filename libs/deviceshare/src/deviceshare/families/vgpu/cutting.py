"""Choosing MIG instances on many nodes at once.

What an instance search answers depends on a card's model, its geometry and the positions taken there, so it is asked
once for each distinct combination of a view, and the answer spread over the cards.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

import numpy as np

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import INIT, SIDECAR
from deviceshare.conf.model import FIRST_FIT, SchedulerConf
from deviceshare.families import common
from deviceshare.families.protocol import CardDemand, Check, Demand, Picks
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu import request
from deviceshare.families.vgpu.geometry import MIXED_UP, Wanted, geometries_of, largest_free, offer
from deviceshare.formats import vgpu

CUT, USED = "mig-cut", "mig-used"
"""State of a card: the number of its geometry, and the positions taken there, a bit each."""

_CUT_BITS, _FRESH = 8, 1 << 40
_NO_GEOMETRY = -1
_MOST_WASTE, _MOST_ORDER = 2**20, 2**37
"""Where differences between cards stop to count, so that a key fits into 64 bits."""


class Instance(NamedTuple):
    """An instance as it is remembered of a chosen card: ``fresh`` where the card was not cut before."""

    cut: int
    position: int
    fresh: bool

    @classmethod
    def of(cls, detail: int) -> "Instance":
        """Return the instance that a detail of a pick means."""
        return cls((detail & ~_FRESH) >> _CUT_BITS, detail & ((1 << _CUT_BITS) - 1), bool(detail & _FRESH))


class _Offers(NamedTuple):
    """What each card offers, int64[R, D]: the instance, where there is one.

    ``needed`` MiB are looked for; ``free`` is the card's largest free instance, ``largest`` that of its model.
    """

    fits: Ints
    detail: Ints
    size: Ints
    waste: Ints
    reused: Ints
    needed: Ints
    free: Ints
    largest: Ints


class Cutting:
    """One demand being answered, container by container, on a view that is charged.

    An init container runs before the pod's others do, so it may use the instances that they get; a sidecar that was
    started before it runs beside it.
    """

    def __init__(self, demand: Demand, view: CardView, conf: SchedulerConf) -> None:
        self._demand, self._view, self._conf = demand, view, conf
        self._first_fit = conf.mig_geometry == FIRST_FIT
        self._usable = vgpu_cards.candidates(demand, view, vgpu.MIG)
        self._own = np.zeros(view.mode.shape, dtype=np.int64)
        """The positions that the pod has on each card by now, a bit each."""
        self._of_sidecars: dict[int, Ints] = {}
        """Those of them that sidecars have, by their position in the pod."""
        self._slots_before, self._cores_before = view.slots_used.copy(), view.cores_used.copy()
        self._sizes: Ints = self._own
        """Of the last pick: int64[R, count], the MiB that each instance takes."""

    def pick(self, cards: CardDemand) -> Picks:
        """Choose instances: on each node the cards that waste least, of equal ones those that are cut already.

        Then, and under first-fit alone, by the policy as Volcano does; spread opens unused cards first.
        """
        offers = self._offers(cards)
        usable = self._usable & (offers.fits != 0)
        for failed in self._failures(cards, offers).values():
            usable &= ~failed
        key = vgpu_cards.order(self._view, self._conf.policy)
        if not self._first_fit:
            loss = 2 * np.minimum(offers.waste, _MOST_WASTE)
            if self._conf.policy != "spread":
                loss += (offers.detail & _FRESH) != 0
            key = 2 * _MOST_ORDER * loss + np.clip(key, 1 - _MOST_ORDER, _MOST_ORDER - 1)
        fits, columns = common.choose(usable, key, cards.count, offers.reused != 0)
        self._sizes = common.at(offers.size, columns)
        return Picks(
            fits,
            columns,
            vgpu_cards.score(self._view, offers.size, fits, columns, self._conf.policy),
            common.at(offers.detail, columns),
            np.where(fits, common.at(offers.waste, columns).sum(axis=1), 0).astype(np.float64),
        )

    def charge(self, cards: CardDemand, picks: Picks) -> None:
        """Take the instances of the last pick, on the rows where it fits; one that the pod has already is not taken."""
        assert picks.details is not None
        view, rows = self._view, np.flatnonzero(picks.fits)[:, None]
        columns, details = picks.columns[picks.fits], picks.details[picks.fits] & ~_FRESH
        bits = np.left_shift(1, details & ((1 << _CUT_BITS) - 1))
        new = (view.state[USED][rows, columns] & bits) == 0
        view.state[CUT][rows, columns] = details >> _CUT_BITS
        view.state[USED][rows, columns] |= bits
        self._own[rows, columns] |= bits
        if cards.stage == SIDECAR:
            self._of_sidecars[cards.position] = mask = np.zeros_like(self._own)
            mask[rows, columns] = bits
        view.memory_used[rows, columns] += np.where(new, self._sizes[picks.fits], 0)
        view.slots_used[rows, columns] += new
        before = self._cores_before if cards.stage == INIT else view.cores_used
        view.cores_used[rows, columns] = np.maximum(view.cores_used[rows, columns], before[rows, columns] + cards.cores)

    def checks(self, cards: CardDemand) -> list[Check]:
        """Return every check that a card fails; those about room look only at cards that may be chosen at all."""
        view, conf, offers = self._view, self._conf, self._offers(cards)
        cuttable = self._usable & (offers.free != _NO_GEOMETRY)
        mixed_up = cuttable & (view.state[CUT] == MIXED_UP)
        none = cuttable & (offers.fits == 0) & ~mixed_up
        too_large = none & (offers.largest < offers.needed)
        largest = vgpu_cards.memory_amounts(cards, view, too_large, cuttable, offers.largest, conf)
        free = vgpu_cards.memory_amounts(cards, view, none & ~too_large, cuttable, offers.free, conf)
        return common.some(
            [
                *vgpu_cards.checks_of_cards(self._demand, cards, view, vgpu.MIG, cuttable, conf),
                *self._without_geometry(offers),
                *vgpu_cards.checks_of_room(cards, self._cores(cards), cuttable, self._failures(cards, offers), conf),
                common.card_check(
                    "CardMigInstancesConflict",
                    "node(s) had MIG cards whose pods hold instances that do not go together",
                    mixed_up,
                ),
                common.amount_check(
                    "CardInsufficientMemory",
                    f"Insufficient {largest.resource} in any MIG geometry of a card",
                    too_large,
                    **largest._asdict(),
                ),
                common.amount_check(
                    "CardMigTopologyInfeasible",
                    f"Insufficient {free.resource} on a free MIG instance of a card",
                    none & ~too_large,
                    **free._asdict(),
                ),
            ]
        )

    def _without_geometry(self, offers: _Offers) -> list[Check]:
        """Return a check for each model that the configuration does not say how to cut."""
        found, types = self._usable & (offers.free == _NO_GEOMETRY), self._view.type
        return [
            common.card_check(
                "CardMigGeometryNotFound",
                f"node(s) had MIG cards of a model that knownMigGeometries does not name: "
                f"{self._view.type_names[model] or 'unknown'}",
                found & (types == model),
            )
            for model in np.unique(types[found]).tolist()
        ]

    def _reusable(self, cards: CardDemand) -> Ints:
        """Return int64[R, D]: the positions that the pod has already and an init container may use, a bit each."""
        own = self._own.copy()
        for position, mask in self._of_sidecars.items():
            if position < cards.position:
                own &= ~mask
        return own

    def _cores(self, cards: CardDemand) -> Ints:
        return self._cores_before if cards.stage == INIT else self._view.cores_used

    def _failures(self, cards: CardDemand, offers: _Offers) -> dict[str, Bools]:
        view = self._view
        shares = self._slots_before if cards.stage == INIT else view.slots_used
        failed = vgpu_cards.failures(cards, view.slots, shares, self._cores(cards))
        failed["CardTimeSlicingExhausted"] = (view.slots_used >= view.slots) & (offers.reused == 0)
        return failed

    def _offers(self, cards: CardDemand) -> _Offers:
        """Ask once for each distinct state of a card."""
        view = self._view
        at = np.flatnonzero(self._usable)
        own: Iterable[int] = self._reusable(cards).ravel()[at].tolist() if cards.stage == INIT else repeat(0)
        keys = list(
            zip(
                view.type.ravel()[at].tolist(),
                view.state[CUT].ravel()[at].tolist(),
                view.state[USED].ravel()[at].tolist(),
                common.memory_asked(cards, view).ravel()[at].tolist(),
                own,
                strict=False,
            )
        )
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        later = self._later(cards)
        whole = request.is_whole(cards)
        answers = [self._answer(*key, whole=whole, later=later) for key in numbers]
        found = np.zeros((len(_Offers._fields), view.mode.size), dtype=np.int64)
        if answers:
            which = np.fromiter(map(numbers.__getitem__, keys), dtype=np.int64, count=len(keys))
            found[:, at] = np.array(answers, dtype=np.int64).T[:, which]
        return _Offers(*found.reshape(len(found), *view.mode.shape))

    def _answer(
        self, model: int, cut: int, used: int, asked: int, own: int, *, whole: bool, later: Wanted
    ) -> tuple[int, ...]:
        """Return the fields of :class:`_Offers` for one card."""
        geometries = geometries_of(self._conf.devices.vgpu, self._view.type_names[model])
        if geometries is None:
            return (0, 0, 0, 0, 0, asked, _NO_GEOMETRY, 0)
        needed = geometries.needed(asked, whole=whole)
        found = offer(geometries, cut, used, own, needed, later, self._first_fit)
        free = largest_free(geometries, cut, used)
        if found is None:
            return (0, 0, 0, 0, 0, needed, free, geometries.largest)
        detail = (_FRESH if found.fresh else 0) | found.cut << _CUT_BITS | found.position
        return (1, detail, found.size, found.waste, found.reused, needed, free, geometries.largest)

    def _later(self, cards: CardDemand) -> Wanted:
        """Return what the pod's other containers may have to find on the same card."""
        rest = self._demand.cards[self._demand.cards.index(cards) + 1 :]
        return tuple((each.memory, each.count) for each in rest if each.memory and not each.memory_percentage)
