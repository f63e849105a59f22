"""hami-core vGPU: cards cut by software into memory (MiB) and cores (percent), shared by a limited number of
containers.

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu (utils.go, device_info.go); wire format and what the device
plugin reads: :mod:`deviceshare.formats.vgpu`. Where Volcano is wrong we differ: unhealthy cards are never given, both
type lists count, spread prefers the node with the fewest shares.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import Claim, ContainerGrant, DeviceGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.errors import RequestError
from deviceshare.facts import Card, ContainerAsk, PodAsk
from deviceshare.families import common
from deviceshare.families.protocol import CardDemand, Check, Demand, NodeView, Pick, Picks, Places
from deviceshare.families.selection import id_allowed, items, type_allowed
from deviceshare.formats import vgpu
from deviceshare.holdings import Counted
from deviceshare.holdings import Share as HeldShare

NUMBER = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"

ALL_CORES = vgpu.CARD_CORES


class HamiCore:
    """The family ``hami-core``."""

    name = vgpu.HAMI_CORE
    flag = "deviceshare.VGPUEnable"
    modes = frozenset({vgpu.HAMI_CORE})
    answers = "vgpu"
    state: tuple[str, ...] = ()
    best_node_score = 0.0
    pod_annotations = frozenset(
        {vgpu.MODE, vgpu.USE_TYPE, vgpu.NOUSE_TYPE, vgpu.USE_ID, vgpu.NOUSE_ID, vgpu.PODGROUP_POLICY}
    )
    pod_labels: frozenset[str] = frozenset()

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode.

        The annotation is one list for all modes.
        """
        register = node.annotations.get(vgpu.REGISTER)
        return vgpu.read_register(register, node.name) if register else ()

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the vGPU resources."""
        return frozenset({NUMBER, MEMORY, PERCENTAGE, CORES})

    def demand(self, ask: PodAsk, conf: SchedulerConf) -> Demand | None:
        """Read the containers' limits and the pod's wishes; one demand for cards a container."""
        for container in ask.init_containers:
            if _asks(container):
                raise RequestError(
                    "Pod",
                    f"spec.initContainers[{container.name}].resources.limits",
                    "a vGPU",
                    "vGPUs in spec.containers only: those of init containers are not evaluated yet",
                )
        asked = [_card_demand(position, container) for position, container in enumerate(ask.containers)]
        cards = tuple(demand for demand in asked if demand is not None)
        if not cards:
            return None
        mode = (ask.annotation(vgpu.MODE) or "").strip()
        if mode and mode not in vgpu.MODES:
            raise RequestError("Pod", f"metadata.annotations[{vgpu.MODE}]", mode, f"one of {', '.join(vgpu.MODES)}")
        if policy := ask.annotation(vgpu.PODGROUP_POLICY):
            raise RequestError(
                "Pod",
                f"metadata.annotations[{vgpu.PODGROUP_POLICY}]",
                policy,
                "no such annotation: it is not evaluated yet",
            )
        return Demand(
            family=self.name,
            cards=cards,
            mode=mode,
            use_types=items(ask.annotation(vgpu.USE_TYPE)),
            nouse_types=items(ask.annotation(vgpu.NOUSE_TYPE)),
            use_ids=items(ask.annotation(vgpu.USE_ID)),
            nouse_ids=items(ask.annotation(vgpu.NOUSE_ID)),
        )

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Choose and charge, container by container."""
        return common.place_one_by_one(
            demand,
            view,
            lambda cards: self._pick(demand, cards, view, conf.policy),
            lambda cards, picks: common.charge(cards, view, picks),
        )

    def _pick(self, demand: Demand, cards: CardDemand, view: CardView, policy: str) -> Picks:
        """Choose cards: binpack the one with most memory used, spread the one with the fewest shares, none the last.

        Score: binpack Σ 100·used/memory after the placement over the chosen cards; spread 100/(1 + shares on the node).
        """
        memory = common.memory_asked(cards, view)
        usable = self._candidates(demand, view)
        for failed in self._failures(cards, view, memory).values():
            usable &= ~failed
        index = np.arange(view.mode.shape[1], dtype=np.int64)[None, :]
        width = max(1, view.mode.shape[1])
        if policy == "binpack":
            key = index - view.memory_used * width
        elif policy == "spread":
            key = view.slots_used * width + index
        else:
            key = -index
        fits, columns = common.choose(usable, key, cards.count)
        return Picks(fits, columns, self._score(view, memory, fits, columns, policy))

    def _score(self, view: CardView, memory: Ints, fits: Bools, columns: Ints, policy: str) -> np.ndarray:
        if policy == "binpack" and columns.shape[1] <= view.mode.shape[1]:
            used = common.at(view.memory_used + memory, columns)
            size = np.maximum(common.at(view.memory, columns), 1)
            return np.where(fits, (100.0 * (used / size)).sum(axis=1), 0.0)
        if policy == "spread":
            return common.spread_score(fits, view)
        return np.zeros(len(fits))

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf
    ) -> tuple[ContainerGrant, ...]:
        """One grant a container, its devices in the order in which they were chosen."""
        return tuple(
            ContainerGrant(
                cards.container,
                cards.position,
                self.name,
                tuple(DeviceGrant(card.id, card.index, _memory_of(cards, card), cards.cores) for card, _ in devices),
            )
            for cards, devices in zip(demand.cards, chosen, strict=True)
        )

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return what keeps the demand from nodes, container by container."""
        return common.check_one_by_one(
            demand,
            lambda cards: self._pick(demand, cards, view, conf.policy),
            lambda cards, picks: common.charge(cards, view, picks),
            lambda cards: self._checks(demand, cards, view),
        )

    def _checks(self, demand: Demand, cards: CardDemand, view: CardView) -> list[Check]:
        """Every check that a card fails; checks about room look only at cards that may be chosen at all."""
        registered = np.logical_or.reduce([view.of_mode(mode) for mode in vgpu.MODES])
        candidates = self._candidates(demand, view)
        memory = common.memory_asked(cards, view)
        of_family = self._of_family(demand, view)
        none = np.zeros(len(registered), dtype=np.int64)
        checks = [
            Check("CardNotFound", "node(s) had no vGPU cards", ~common.any_card(registered), none),
            common.card_check(
                "ModeNotFit",
                f"node(s) had cards that are not in mode {demand.mode or self.name}",
                registered & ~of_family,
            ),
            common.card_check("CardNotHealth", "node(s) had unhealthy cards", of_family & ~view.healthy),
        ]
        if (allowed := type_allowed(demand, view)) is not None:
            checks.append(
                common.card_check("CardTypeMismatch", "node(s) had cards of another type", of_family & ~allowed)
            )
        if (allowed := id_allowed(demand, view)) is not None:
            checks.append(
                common.card_check("CardUuidMismatch", "node(s) had cards of another UUID", of_family & ~allowed)
            )
        count = candidates.sum(axis=1)
        checks.append(
            Check(
                "NodeInsufficientDevice",
                f"Insufficient {NUMBER}",
                # Where there is none at all, the checks above say why.
                (count > 0) & (count < cards.count),
                none,
                NUMBER,
                cards.count,
                count,
                "",
            )
        )
        failures = {code: failed & candidates for code, failed in self._failures(cards, view, memory).items()}
        checks.append(
            common.card_check(
                "CardTimeSlicingExhausted",
                "node(s) had cards shared by as many containers as they may be",
                failures["CardTimeSlicingExhausted"],
            )
        )
        free = view.memory - view.memory_used
        by_percent = bool(cards.memory_percentage or not cards.memory)
        if by_percent:
            # Cards differ in size, so only a part of a card means the same on all.
            free = 100 * free // np.maximum(view.memory, 1)
        failed = failures["CardInsufficientMemory"]
        resource = PERCENTAGE if cards.memory_percentage else MEMORY
        checks.append(
            common.amount_check(
                "CardInsufficientMemory",
                f"Insufficient {resource} on a card",
                failed,
                resource=resource,
                asked=(cards.memory_percentage or 100) if by_percent else cards.memory,
                free=common.most_free(free, candidates, failed, cards.count),
                unit="percent" if by_percent else "MiB",
            )
        )
        failed = failures["CardInsufficientCore"]
        checks.append(
            common.amount_check(
                "CardInsufficientCore",
                f"Insufficient {CORES} on a card",
                failed,
                resource=CORES,
                asked=cards.cores,
                free=common.most_free(ALL_CORES - view.cores_used, candidates, failed, cards.count),
                unit="percent",
            )
        )
        checks += [
            common.card_check(
                "ExclusiveDeviceAllocateConflict",
                "node(s) had cards in use where all cores of a card are asked",
                failures["ExclusiveDeviceAllocateConflict"],
            ),
            common.card_check(
                "CardComputeUnitsExhausted",
                "node(s) had cards whose cores are all taken",
                failures["CardComputeUnitsExhausted"],
            ),
        ]
        return common.some(checks)

    def count(self, card: Card, pods: Sequence[Sequence[HeldShare]], conf: SchedulerConf) -> Counted:
        """Never asked: there is no state."""
        raise NotImplementedError

    def annotations(self, claim: Claim, node: str, containers: Sequence[str], now: float) -> dict[str, str]:
        """Return what the vGPU device plugin waits for."""
        grants = [grant for grant in claim.grants if grant.family == self.name]
        ids = vgpu.write_ids(grants, containers)
        seconds = str(int(now))
        return {
            vgpu.NODE: node,
            vgpu.TIME: seconds,
            vgpu.IDS: ids,
            vgpu.TO_ALLOCATE: ids,
            vgpu.BIND_PHASE: vgpu.ALLOCATING,
            vgpu.BIND_TIME: seconds,
        }

    def held(self, annotations: Mapping[str, str], ask: PodAsk, pod: str) -> tuple[ContainerGrant, ...]:
        """Read ``vgpu-ids-new``, never ``devices-to-allocate``: the plugin erases from that what it hands out."""
        text = annotations.get(vgpu.IDS)
        if not text:
            return ()
        slots = vgpu.read_ids(text, pod)
        containers = ask.containers
        positions: list[int] = list(range(len(containers)))
        if len(slots) < len(containers):
            # Volcano leaves no slot for a container without a request.
            positions = [at for at, container in enumerate(containers) if _asks(container)]
        return tuple(
            ContainerGrant(containers[position].name, position, self.name, tuple(devices))
            for position, devices in zip(positions, slots, strict=False)
            if devices
        )

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the limits that HAMi-core reads in the container."""
        environment = {"NVIDIA_VISIBLE_DEVICES": ",".join(device.id for device in grant.devices)}
        for number, device in enumerate(grant.devices):
            environment[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] = f"{device.memory}m"
        environment["CUDA_DEVICE_SM_LIMIT"] = str(grant.devices[0].cores)
        return environment

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Warn of vGPUs in several containers.

        kubelet asks container by container, and the plugin looks for a pod with exactly as many devices left in all as
        that (volcano-vgpu-device-plugin, pkg/util/util.go).
        """
        if len(grants) < 2:
            return ()
        names = ", ".join(grant.container for grant in grants)
        return (f"vGPUs in {len(grants)} containers ({names}): the vGPU device plugin serves one container of a pod",)

    def _of_family(self, demand: Demand, view: CardView) -> Bools:
        if demand.mode not in ("", self.name):
            return np.zeros(view.mode.shape, dtype=np.bool_)
        return view.of_mode(self.name)

    def _candidates(self, demand: Demand, view: CardView) -> Bools:
        """Return bool[R, D]: cards that could be chosen if they had room."""
        candidates = self._of_family(demand, view) & view.healthy
        if (allowed := type_allowed(demand, view)) is not None:
            candidates &= allowed
        if (allowed := id_allowed(demand, view)) is not None:
            candidates &= allowed
        return candidates

    def _failures(self, cards: CardDemand, view: CardView, memory: Ints) -> dict[str, Bools]:
        """Return for each check about room bool[R, D]: the cards that fail it."""
        nothing = np.zeros(view.mode.shape, dtype=np.bool_)
        return {
            "CardTimeSlicingExhausted": view.slots_used >= view.slots,
            "CardInsufficientMemory": view.memory_used + memory > view.memory,
            "CardInsufficientCore": view.cores_used + cards.cores > ALL_CORES,
            "ExclusiveDeviceAllocateConflict": view.slots_used > 0 if cards.cores == ALL_CORES else nothing,
            "CardComputeUnitsExhausted": nothing if cards.cores else view.cores_used >= ALL_CORES,
        }


def _memory_of(cards: CardDemand, card: Card) -> int:
    if cards.memory_percentage:
        return card.memory * cards.memory_percentage // 100
    return cards.memory or card.memory


def _asks(container: ContainerAsk) -> bool:
    """Return whether a container asks vGPUs at all."""
    return any(container.get(resource) for resource in (NUMBER, MEMORY, PERCENTAGE, CORES))


def _card_demand(position: int, container: ContainerAsk) -> CardDemand | None:
    """Read one container: the number defaults to 1 where memory, a percentage or cores are asked."""
    number, memory = container.get(NUMBER), container.get(MEMORY)
    percentage, cores = container.get(PERCENTAGE), container.get(CORES)
    if not _asks(container):
        return None
    field = f"spec.containers[{container.name}].resources.limits"
    if number == 0:
        raise RequestError("Pod", f"{field}[{NUMBER}]", number, "1 or more, or no vGPU resources at all")
    if (cores or 0) > ALL_CORES:
        raise RequestError("Pod", f"{field}[{CORES}]", cores, "0 to 100 (percent of each card)")
    if (percentage or 0) > 100:
        raise RequestError("Pod", f"{field}[{PERCENTAGE}]", percentage, "1 to 100 (percent of each card)")
    return CardDemand(
        count=1 if number is None else number,
        memory=memory or 0,
        cores=cores or 0,
        memory_percentage=percentage or 0,
        container=container.name,
        position=position,
    )
