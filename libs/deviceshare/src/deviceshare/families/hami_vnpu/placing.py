"""Which chips of a node a pod gets, for all nodes at once.

A chip fits by its slots, its memory, and the AI cores and AI CPUs of its templates, or the percent of its cores where
HAMi-core shares it. It is cut in one way at a time: a chip of which vNPUs have been made cannot be given to a container
as it is (the vendor's constraint on virtual instances), and that is what HAMi-core does. The containers of a pod have
distinct chips: the device plugin looks for how a chip is cut by its UUID alone. An init container may have the chip of
a container that is cut alike; never that of a sidecar, which is there at the same time.
"""

from collections.abc import Iterable

import numpy as np

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import INIT, SIDECAR
from deviceshare.conf.model import SchedulerConf
from deviceshare.families import common
from deviceshare.families.common import Floats
from deviceshare.families.hami_vnpu.demand import ALL_CORES, ChipDemand, VnpuDemand
from deviceshare.families.protocol import CardDemand, Picks, Places
from deviceshare.families.selection import id_allowed
from deviceshare.formats import hami_vnpu as wire

AI_CORES, AI_CPUS, SHARES = "vnpu_ai_cores", "vnpu_ai_cpus", "vnpu_shares"
"""State of a chip: AI cores and AI CPUs that templates and whole chips take, and how many HAMi-core shares it has."""

NETWORK_SCORE = 10.0
_FINE = 2**20
"""Parts of a chip's memory by which fuller chips are told from emptier ones."""
_ROOM = 2 * _FINE
_TAKEN = -1
"""The number of a cut that is like no other."""


class Board:
    """The chips that one demand could have on the nodes of a view, and what the pod has of them so far."""

    def __init__(self, demand: VnpuDemand, view: CardView, conf: SchedulerConf) -> None:
        self.demand = demand
        self.view = view
        self.policy = conf.policy
        self.mixed = conf.mixed_chips
        self.has = {name: view.state[name] for name in (AI_CORES, AI_CPUS, SHARES)}
        self.offered: Bools = view.allocatable(demand.chip.resource) > 0
        """bool[R]: nodes whose kubelet offers chips of the kind."""
        self.of_kind = _of_kind(demand.chip.word, view)
        self.of_mode = self.of_kind & _of_modes(_shared_modes(conf), view) if demand.shared else self.of_kind
        """bool[R, D]: those that can be cut as the pod asks: templates cut any, HAMi-core shares where it is on."""
        self.usable: Bools = self.of_mode & view.healthy & self.offered[:, None]
        if (allowed := id_allowed(demand, view)) is not None:
            self.usable &= allowed
        self.given: Ints | None = None
        """int64[R, D]: the number of the cut of which the pod has a part of the chip, 0 for none."""

    def place(self) -> Places:
        """Choose and charge, container by container."""
        places = common.place_one_by_one(self.demand, self.view, self.pick, self.charge)
        if self.demand.linked:
            self._add_network_score(places)
        return places

    def pick(self, cards: CardDemand) -> Picks:
        """Choose chips: binpack the fullest, spread one without a pod, then the first; score by how it stands before.

        Score: binpack 100·used/memory of the first chip, spread 100 where it has no pod. Of linked chips the network
        with the most that fit goes first, whatever the policy.
        """
        assert isinstance(cards, ChipDemand)
        usable = self.candidates(cards)
        for failed in self.failures(cards).values():
            usable &= ~failed
        fits, columns = common.choose(usable, self._order(usable), cards.count, self.view.preferred)
        return Picks(fits, columns, self._score(fits, columns))

    def candidates(self, cards: ChipDemand) -> Bools:
        """Return bool[R, D]: chips that could be chosen if they had room."""
        if self.given is None:
            return self.usable.copy()
        free = self.given == 0
        if cards.stage == INIT:
            free |= self.given == cards.number
        candidates: Bools = self.usable & free
        return candidates

    def failures(self, cards: ChipDemand) -> dict[str, Bools]:
        """Return for each check about room bool[R, D]: the chips that fail it."""
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

    def _order(self, usable: Bools) -> Ints:
        """Return int64[R, D] or int64[1, 1]: the smaller goes first, of equal ones the one with the lower index."""
        order = np.zeros((1, 1), dtype=np.int64)
        if self.policy == "binpack":
            order = -np.minimum(self._share() * _FINE, _ROOM - 1).astype(np.int64)
        elif self.policy == "spread":
            order = (self.view.slots_used > 0).astype(np.int64)
        if self.demand.linked:
            order = order + self._network_order(usable) * _ROOM
        return order

    def _network_order(self, usable: Bools) -> Ints:
        """Return int64[R, D]: the smaller, the more chips of the network are usable, and the lower its number.

        0 on nodes where a network is not known.
        """
        network = self.view.network
        unknown = (self.of_kind & (network < 0)).any(axis=1, keepdims=True)
        count = ((network[:, :, None] == network[:, None, :]) & usable[:, None, :]).sum(axis=2)
        order: Ints = np.where(unknown, 0, network - count * wire.NETWORKS)
        return order

    def _share(self) -> Floats:
        """Return float64[R, D]: the part of each chip's memory that is taken."""
        share: Floats = self.view.memory_used / np.maximum(self.view.memory, 1)
        return share

    def _score(self, fits: Bools, columns: Ints) -> Floats:
        first = columns[:, :1]
        if self.policy == "binpack":
            used, memory = common.at(self.view.memory_used, first), common.at(self.view.memory, first)
            return np.where(fits, 100.0 * (used / np.maximum(memory, 1))[:, 0], 0.0)
        if self.policy == "spread":
            return np.where(fits & (common.at(self.view.slots_used, first)[:, 0] == 0), 100.0, 0.0)
        return np.zeros(len(fits))

    def _add_network_score(self, places: Places) -> None:
        """Add 10 times the share of the largest network among the first chips of the containers."""
        firsts = [
            columns[:, 0]
            for cards, columns in zip(self.demand.cards, places.columns, strict=True)
            if cards.stage != INIT
        ]
        if not firsts:
            return
        networks = common.at(self.view.network, np.stack(firsts, axis=1))
        linked = places.fits & (networks >= 0).all(axis=1)
        share = np.ones(len(linked))
        if len(firsts) > 1:
            share = (networks[:, :, None] == networks[:, None, :]).sum(axis=2).max(axis=1) / len(firsts)
        places.score[linked] += NETWORK_SCORE * share[linked]

    def charge(self, cards: CardDemand, picks: Picks) -> None:
        """Take the picked chips in the view, and remember them, on the rows where the demand fits."""
        assert isinstance(cards, ChipDemand)
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


def _shared_modes(conf: SchedulerConf) -> tuple[str, ...]:
    """Return the modes of chips that HAMi-core shares."""
    return (wire.SHARED, wire.CONFIGURED) if conf.devices.hami_vnpu_core else (wire.SHARED,)


def _of_kind(word: str, view: CardView) -> Bools:
    """Return bool[R, D]: the chips with this common word."""
    if word not in view.type_names:
        return np.zeros(view.mode.shape, dtype=np.bool_)
    found: Bools = (view.type == view.type_names.index(word)) & _of_modes(wire.MODES, view)
    return found


def _of_modes(modes: Iterable[str], view: CardView) -> Bools:
    """Return bool[R, D]: the chips of these modes, by one look-up."""
    return view.of_modes(modes)
