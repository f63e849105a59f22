"""Picking MIG instances: the kernel for a demand, and placing a demand container by container."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from deviceshare.conf import FIRST_FIT, SchedulerConf
from deviceshare.families import common, selection
from deviceshare.families.protocol import CardDemand, Check, Demand, Picks
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu import request, wire
from deviceshare.families.vgpu.geometry import MIXED_UP, Wanted, first_cut, geometries_of
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.kernels import CUT_BITS, UNPARTITIONED, CardCharges, instances
from deviceshare.kernels.geometry_tables import GeometryTables
from deviceshare.model import INIT, SIDECAR
from deviceshare.state import Bools, CardView, Codes, Ints

CUT, USED = "mig-cut", "mig-used"
"""The state of a card: the number of its geometry, and the positions in use, a bit each."""


class Instance(NamedTuple):
    """A picked instance; ``fresh`` where the card was not partitioned before."""

    cut: int
    position: int
    fresh: bool


@lru_cache(maxsize=4096)
def instance_of(detail: int) -> Instance:
    """Decode the detail of a pick."""
    return Instance((detail & ~UNPARTITIONED) >> CUT_BITS, detail & ((1 << CUT_BITS) - 1), bool(detail & UNPARTITIONED))


@lru_cache(maxsize=4096)
def granted(vgpu: VgpuConf, card_type: str, detail: int) -> tuple[int, str]:
    """Return the MiB of a picked instance, and the instance as in pod annotations."""
    geometries, (cut, position, _) = geometries_of(vgpu, card_type), instance_of(detail)
    assert geometries is not None, card_type
    sizes, texts = geometries.of(cut)
    return sizes[position], texts[position]


class Offers(NamedTuple):
    """What each card offers a container, [R, D].

    ``fits``: the card has an instance for it; ``reused``: the pod has the instance already. In MiB: ``needed`` for the
    container, ``free`` the card's largest free instance, ``largest`` the largest instance of its kind.
    """

    fits: Bools
    reused: Bools
    needed: Ints
    free: Ints
    largest: Ints


class MigKinds:
    """The geometries of each kind of cards, as the kernel reads them."""

    def __init__(self, codes: Codes, conf: SchedulerConf) -> None:
        kinds, names = codes.kinds, codes.kinds.types.names
        vgpu = conf.devices.section(VgpuConf)
        found = {code: geometries_of(vgpu, names[code]) for code in np.unique(kinds.type).tolist()}
        self.geometries = [found[code] for code in kinds.type.tolist()]
        base, cuts = dict[int, int](), list[tuple[int, ...]]()
        for code, each in found.items():
            if each is not None:
                base[code] = len(cuts) - 1
                cuts += [geometry.sizes for geometry in each.all]
        sizes = np.zeros((max(1, len(cuts)), max(map(len, cuts), default=1)), dtype=np.int64)
        ranked = np.zeros_like(sizes)
        for number, cut in enumerate(cuts):
            sizes[number, : len(cut)] = cut
            ranked[number, : len(cut)] = np.argsort(cut, kind="stable")
        self.cuttable: Bools = np.array([each is not None for each in self.geometries])
        """bool[kinds]: the kinds with geometries in the configuration."""
        self.largest: Ints = np.array([0 if each is None else each.largest for each in self.geometries], dtype=np.int64)
        self.sizes: Ints = sizes
        self.base: Ints = np.array([base.get(code, -1) for code in kinds.type.tolist()], dtype=np.int64)
        counts = np.array([len(cut) for cut in cuts] or [0], dtype=np.int64)
        self.tables = GeometryTables(self.base, self.largest, sizes, ranked, counts)

    def needed(self, cards: CardDemand, codes: Codes) -> Ints:
        """Return int64[kinds]: the least MiB of an instance for the demand."""
        asked, whole = common.memory_of_kinds(cards, codes.kinds).tolist(), request.is_whole(cards)
        return np.array(
            [
                memory if each is None else each.needed(memory, whole=whole)
                for each, memory in zip(self.geometries, asked, strict=True)
            ],
            dtype=np.int64,
        )


def selector_of(
    demand: Demand, cards: CardDemand, codes: Codes, kinds: MigKinds, conf: SchedulerConf
) -> instances.InstanceSelector:
    """Return the kernel that picks instances for one container.

    On each node the cards with the least waste go first, of equal ones partitioned cards. Then, and under first-fit
    only this, the policy decides as in Volcano. Spread uses unused cards first.
    """
    needed, first_fit = kinds.needed(cards, codes), conf.mig_geometry == FIRST_FIT
    later = _later(demand, cards)
    fresh = np.full((2, len(needed)), -1, dtype=np.int64)
    usable = selection.usable_kinds(demand, wire.MIG, codes) & kinds.cuttable
    for kind in np.flatnonzero(usable).tolist():
        geometries = kinds.geometries[kind]
        assert geometries is not None
        cut = first_cut(geometries, int(needed[kind]), later, first_fit)
        if cut is not None:
            fresh[:, kind] = UNPARTITIONED | cut.cut << CUT_BITS | cut.position, cut.size
    selector = instances.InstanceSelector(cards.count, kinds.tables, codes.kinds.memory, usable, needed, fresh)
    selector.cut_field, selector.used_field = codes.field(CUT), codes.field(USED)
    selector.shares = codes.kinds.slots - 1
    selector.cores, selector.alone = vgpu_cards.most_cores(cards), cards.cores == request.ALL_CORES
    selector.careful = not first_fit
    common.set_policies(selector, conf, cards, codes.kinds, usable)
    return selector


def _later(demand: Demand, cards: CardDemand) -> Wanted:
    """Return the demands of the pod's later containers, which may need instances of the same card."""
    rest = demand.cards[demand.cards.index(cards) + 1 :]
    return tuple((each.memory, each.count) for each in rest if each.memory and not each.memory_percentage)


class Cutting:
    """Places one demand, container by container, and charges the view.

    An init container runs before the other containers and may use their instances, except those of sidecars that
    started before it.
    """

    def __init__(self, demand: Demand, view: CardView, conf: SchedulerConf) -> None:
        self._demand, self._view, self._conf = demand, view, conf
        self._kinds = MigKinds(view, conf)
        self._usable = vgpu_cards.candidates(demand, view, wire.MIG)
        self._own = np.zeros(view.kind.shape, dtype=np.int64)
        """The positions of the pod on each card so far, a bit each."""
        self._of_sidecars: dict[int, Ints] = {}
        """The positions of sidecars among them, by the sidecar's position in the pod."""
        self._slots_before, self._cores_before = view.slots_used.copy(), view.cores_used.copy()

    def pick(self, cards: CardDemand) -> Picks:
        """Pick for one container."""
        return common.picks_of(self._selector(cards), self._view, vgpu_cards.allowed_by_name(self._demand, self._view))

    def _selector(self, cards: CardDemand) -> instances.InstanceSelector:
        selector = selector_of(self._demand, cards, self._view, self._kinds, self._conf)
        if cards.stage == INIT:
            selector.first, selector.own = True, self._reusable(cards)
            selector.shares_before, selector.cores_before = self._slots_before, self._cores_before
        return selector

    def charge(self, cards: CardDemand, picks: Picks) -> None:
        """Charge the picked instances on the feasible rows, except instances that the pod has already."""
        assert picks.details is not None
        view, rows = self._view, np.flatnonzero(picks.fits)[:, None]
        columns, details = picks.columns[picks.fits], picks.details[picks.fits] & ~UNPARTITIONED
        positions = details & ((1 << CUT_BITS) - 1)
        bits = np.left_shift(1, positions)
        sizes = self._kinds.sizes[self._kinds.base[view.kind[rows, columns]] + (details >> CUT_BITS), positions]
        new = (view.state[USED][rows, columns] & bits) == 0
        view.state[CUT][rows, columns] = details >> CUT_BITS
        view.state[USED][rows, columns] |= bits
        self._own[rows, columns] |= bits
        if cards.stage == SIDECAR:
            self._of_sidecars[cards.position] = mask = np.zeros_like(self._own)
            mask[rows, columns] = bits
        view.memory_used[rows, columns] += np.where(new, sizes, 0)
        view.slots_used[rows, columns] += new
        before = self._cores_before if cards.stage == INIT else view.cores_used
        view.cores_used[rows, columns] = np.maximum(view.cores_used[rows, columns], before[rows, columns] + cards.cores)

    def checks(self, cards: CardDemand) -> list[Check]:
        """Return every check that cards fail; checks about room only for cards that the pod may use."""
        view, offers, names = self._view, self._offers(cards), self._conf.devices.section(VgpuConf)
        cuttable = self._usable & self._kinds.cuttable[view.kind]
        mixed_up = cuttable & (view.state[CUT] == MIXED_UP)
        none = cuttable & ~offers.fits & ~mixed_up
        too_large = none & (offers.largest < offers.needed)
        largest = vgpu_cards.memory_amount(cards, view, too_large, cuttable, offers.largest, names)
        free = vgpu_cards.memory_amount(cards, view, none & ~too_large, cuttable, offers.free, names)
        return [
            *vgpu_cards.checks_of_cards(self._demand, view, wire.MIG),
            *self._without_geometry(),
            vgpu_cards.check_of_number(cards, cuttable, names),
            *vgpu_cards.checks_of_room(cards, self._cores(cards), cuttable, self._failures(cards, offers), names),
            common.card_check(
                "CardMigInstancesConflict",
                "node(s) had MIG cards whose pods hold instances that do not go together",
                mixed_up,
            ),
            common.card_check(
                "CardInsufficientMemory",
                f"Insufficient {largest.resource} in any MIG geometry of a card",
                too_large,
                largest,
            ),
            common.card_check(
                "CardMigTopologyInfeasible",
                f"Insufficient {free.resource} on a free MIG instance of a card",
                none & ~too_large,
                free,
            ),
        ]

    def _without_geometry(self) -> list[Check]:
        """Return a check for each model without geometries in the configuration."""
        found, types = self._usable & ~self._kinds.cuttable[self._view.kind], self._view.type
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
        """Return int64[R, D]: the pod's positions that an init container may use, a bit each."""
        own = self._own.copy()
        for position, mask in self._of_sidecars.items():
            if position < cards.position:
                own &= ~mask
        return own

    def _cores(self, cards: CardDemand) -> Ints:
        return self._cores_before if cards.stage == INIT else self._view.cores_used

    def _failures(self, cards: CardDemand, offers: Offers) -> dict[str, Bools]:
        view = self._view
        shares = self._slots_before if cards.stage == INIT else view.slots_used
        failed = vgpu_cards.failures(cards, view.slots, shares, self._cores(cards))
        failed["CardTimeSlicingExhausted"] = (view.slots_used >= view.slots) & ~offers.reused
        return failed

    def _offers(self, cards: CardDemand) -> Offers:
        selector, kind = self._selector(cards), self._view.kind
        found, reused = (np.zeros(kind.shape, dtype=np.uint8) for _ in range(2))
        free = np.zeros(kind.shape, dtype=np.int64)
        selector.cards = CardCharges(self._view.block)
        selector.show(found, reused, free)
        needed = self._kinds.needed(cards, self._view)[kind]
        return Offers(found.view(np.bool_), reused.view(np.bool_), needed, free, self._kinds.largest[kind])
