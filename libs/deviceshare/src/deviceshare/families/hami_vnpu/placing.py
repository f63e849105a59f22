"""Picking chips for a pod, on all nodes in one call.

The capacity of a chip is limited by slots, memory, and the AI cores and AI CPUs of its templates, or the percentage of
its cores if HAMi-core shares it. A chip is either partitioned by templates or shared: the vendor does not allow a chip
with virtual instances to be used as a whole, as HAMi-core does. The containers of a pod have distinct chips, since the
device plugin looks up the template of a chip by its UUID alone. An init container may use the chip of a container with
the same template, but not the chip of a sidecar, which runs at the same time.
"""

from collections.abc import Iterable

import numpy as np

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.demand import ALL_CORES, VnpuCardDemand, VnpuDemand
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.families.protocol import CardDemand, Demand, Picks, Places
from deviceshare.families.selection import id_allowed
from deviceshare.kernels import ChipSelector
from deviceshare.model import INIT, SIDECAR
from deviceshare.state import Bools, CardView, Codes, Ints

AI_CORES, AI_CPUS, SHARES = "vnpu_ai_cores", "vnpu_ai_cpus", "vnpu_shares"
"""The state of a chip: AI cores and AI CPUs used by templates and whole chips, and the number of HAMi-core shares."""

NETWORK_SCORE = 10.0
_TAKEN = -1
"""The number of a template that no init container may share."""


def selector_of(demand: VnpuDemand, cards: VnpuCardDemand, codes: Codes, conf: SchedulerConf) -> ChipSelector:
    """Return the kernel that picks chips for one container.

    Binpack picks the fullest chip, spread a chip without pods, then the first. The score is that of the first chip
    before the placement: under binpack 100·used/memory, under spread 100 without pods, else 0. Of linked chips the
    network with the most feasible chips goes first under every policy.
    """
    kinds, chip = codes.kinds, demand.chip
    of_kind = _kinds_of(chip.word, codes)
    usable = of_kind & _of_modes(demand, codes, conf) & kinds.usable
    asked = common.memory_of_kinds(cards, kinds)
    selector = ChipSelector(cards.count, kinds.memory, asked, kinds.slots, usable, of_kind)
    selector.ai_cores_field, selector.ai_cpus_field = codes.field(AI_CORES), codes.field(AI_CPUS)
    selector.shares_field = codes.field(SHARES)
    if demand.shared:
        selector.only_shared = not conf.mixed_chips
        if cards.cores == ALL_CORES:
            selector.most_shares = np.minimum(kinds.slots - 1, 0)
        else:
            selector.most_cores = np.full(len(kinds), ALL_CORES - max(cards.cores, 1), dtype=np.int64)
    else:
        selector.unshared = not conf.mixed_chips
        if conf.mixed_chips:
            # A node with HAMi-core registers 100 percent as the cores of a chip.
            selector.most_cores = np.maximum(kinds.cores, 1) - 1
        if cards.ai_cores:
            selector.most_ai_cores = chip.ai_cores - cards.ai_cores
        if cards.ai_cpus and chip.ai_cpus:
            selector.most_ai_cpus = chip.ai_cpus - cards.ai_cpus
    common.set_policies(selector, conf, cards, kinds, usable)
    selector.fitting = not demand.shared
    selector.linked, selector.networks, selector.numbers = demand.linked, kinds.network, wire.NETWORKS
    return selector


class ChipChooser:
    """Places one demand, container by container, on the chips of a view, and charges them."""

    def __init__(self, demand: VnpuDemand, view: CardView, conf: SchedulerConf) -> None:
        self.demand = demand
        self.view = view
        self.conf = conf
        self.mixed = conf.mixed_chips
        self.has = {name: view.state[name] for name in (AI_CORES, AI_CPUS, SHARES)}
        self.offered: Bools = view.allocatable(demand.chip.resource) > 0
        """bool[R]: nodes whose kubelet offers chips of this kind."""
        self.of_kind: Bools = _kinds_of(demand.chip.word, view)[view.kind]
        self.of_mode: Bools = self.of_kind & _of_modes(demand, view, conf)[view.kind]
        """bool[R, D]: chips that support the request: all support templates, those with HAMi-core also shares."""
        self.allowed: Bools = np.broadcast_to(self.offered[:, None], view.kind.shape).copy()
        if (allowed := id_allowed(demand, view)) is not None:
            self.allowed &= allowed
        self.given: Ints | None = None
        """int64[R, D]: the number of the template by which the pod has a part of the chip, 0 for none."""

    def pick(self, cards: CardDemand) -> Picks:
        """Pick for one container."""
        assert isinstance(cards, VnpuCardDemand)
        selector = selector_of(self.demand, cards, self.view, self.conf)
        return common.picks_of(selector, self.view, self.allowed & self._not_given(cards))

    def candidates(self, cards: VnpuCardDemand) -> Bools:
        """Return bool[R, D]: chips that could be picked if they had capacity."""
        found: Bools = self.of_mode & self.view.usable & self.allowed & self._not_given(cards)
        return found

    def registered(self, cards: CardDemand) -> Bools:
        """Return bool[R, D]: the chips of this kind that the other containers leave."""
        assert isinstance(cards, VnpuCardDemand)
        found: Bools = self.of_kind & self.offered[:, None] & self._not_given(cards)
        return found

    def _not_given(self, cards: VnpuCardDemand) -> Bools:
        """Return bool[R, D]: chips that the pod does not use, for an init container also those with its template."""
        if self.given is None:
            return np.ones(self.view.kind.shape, dtype=np.bool_)
        free: Bools = self.given == 0
        if cards.stage == INIT:
            free |= self.given == cards.number
        return free

    def failures(self, cards: VnpuCardDemand) -> dict[str, Bools]:
        """Return for each check about capacity bool[R, D]: the chips that fail it."""
        view, chip = self.view, self.demand.chip
        failed = {
            "CardTimeSlicingExhausted": view.slots_used >= view.slots,
            "CardInsufficientMemory": view.memory_used + common.memory_asked(cards, view) > view.memory,
        }
        if not self.demand.shared:
            if self.mixed:
                # A node with HAMi-core registers 100 percent as the cores of a chip.
                failed["CardComputeUnitsExhausted"] = view.cores_used >= np.maximum(view.cores, 1)
            else:
                failed["ModeNotFit"] = self.has[SHARES] > 0
            if cards.ai_cores:
                failed["CardInsufficientCore"] = self.has[AI_CORES] + cards.ai_cores > chip.ai_cores
            if cards.ai_cpus and chip.ai_cpus:
                failed["CardInsufficientCpu"] = self.has[AI_CPUS] + cards.ai_cpus > chip.ai_cpus
            return failed
        if not self.mixed:
            failed["ModeNotFit"] = view.slots_used > self.has[SHARES]
        if cards.cores == ALL_CORES:
            failed["ExclusiveDeviceAllocateConflict"] = view.slots_used > 0
        elif cards.cores:
            failed["CardInsufficientCore"] = view.cores_used + cards.cores > ALL_CORES
        else:
            failed["CardComputeUnitsExhausted"] = view.cores_used >= ALL_CORES
        return failed

    def charge(self, cards: CardDemand, picks: Picks) -> None:
        """Charge the picked chips in the view on the feasible rows."""
        assert isinstance(cards, VnpuCardDemand)
        if cards.count > self.view.mode.shape[1]:
            return
        common.charge(cards, self.view, picks)
        rows = np.flatnonzero(picks.fits)[:, None]
        columns = picks.columns[picks.fits]
        for name, amount in ((AI_CORES, cards.ai_cores), (AI_CPUS, cards.ai_cpus), (SHARES, int(self.demand.shared))):
            if amount:
                self.has[name][rows, columns] += amount
        if len(self.demand.cards) > 1:
            if self.given is None:
                self.given = np.zeros(self.view.mode.shape, dtype=np.int64)
            self.given[rows, columns] = _TAKEN if cards.stage == SIDECAR else cards.number


def add_network_score(demand: Demand, view: CardView, places: Places) -> None:
    """Add 10 times the share of the largest network among the first chips of the containers."""
    firsts = [columns[:, 0] for cards, columns in zip(demand.cards, places.columns, strict=True) if cards.stage != INIT]
    if not firsts:
        return
    networks = np.take_along_axis(view.network, np.stack(firsts, axis=1), axis=1)
    linked = places.fits & (networks >= 0).all(axis=1)
    share = np.ones(len(linked))
    if len(firsts) > 1:
        share = (networks[:, :, None] == networks[:, None, :]).sum(axis=2).max(axis=1) / len(firsts)
    places.score[linked] += NETWORK_SCORE * share[linked]


def _kinds_of(word: str, codes: Codes) -> Bools:
    """Return bool[kinds]: the chips with this common word."""
    kinds = codes.kinds
    found: Bools = (kinds.type == kinds.types.find(word)) & _any_of(wire.MODES, codes)
    return found


def _of_modes(demand: VnpuDemand, codes: Codes, conf: SchedulerConf) -> Bools:
    """Return bool[kinds]: the chips that support a request: shares need a mode of HAMi-core."""
    if not demand.shared:
        return _any_of(wire.MODES, codes)
    configured = conf.devices.section(VnpuConf).hami_vnpu_core
    return _any_of((wire.SHARED, wire.CONFIGURED) if configured else (wire.SHARED,), codes)


def _any_of(modes: Iterable[str], codes: Codes) -> Bools:
    found: Bools = np.logical_or.reduce([codes.kinds.of_mode(mode) for mode in modes])
    return found
