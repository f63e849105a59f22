"""The vGPU request of a pod: the limits of its containers, and its annotations.

``device-config.yaml`` (:class:`~.section.VgpuConf`) has the names of the resources and the defaults.
"""

from deviceshare.conf import SchedulerConf
from deviceshare.families import common, selection
from deviceshare.families.protocol import MAX_CARDS, CardDemand, Demand
from deviceshare.families.vgpu import wire
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import ContainerRequest, PodRequest, RequestError

WISHES = selection.WISHES | {wire.MODE, wire.USE_ID, wire.NOUSE_ID}
"""Annotations by which a pod restricts vGPU cards."""
ALL_CORES = wire.CARD_CORES


def read_demand(family: str, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
    """Return the demand of a pod, one :class:`CardDemand` for each container; None for none, or for another mode.

    Raises:
        RequestError: the request is invalid.
    """
    mode = (ask.annotation(wire.MODE) or "").strip()
    if mode in wire.MODES and mode != family:
        return None
    names = conf.devices.section(VgpuConf)
    demands = (_card_demand(position, container, stage, names) for stage, position, container in common.by_stage(ask))
    cards = tuple(demand for demand in demands if demand is not None)
    if not cards:
        return None
    if mode and mode not in wire.MODES:
        raise RequestError("Pod", f"metadata.annotations[{wire.MODE}]", mode, f"one of {', '.join(wire.MODES)}")
    restrictions = selection.restrictions(ask, conf, wire.USE_ID, wire.NOUSE_ID)
    return Demand(family=family, cards=cards, mode=mode, **restrictions)


def is_whole(cards: CardDemand) -> bool:
    """Return whether all memory of each card is requested."""
    return cards.memory_percentage == 100 or not (cards.memory_percentage or cards.memory)


def unit(names: VgpuConf) -> str:
    """Return the unit in which memory is requested and registered: ``MiB``, or a number of MiB."""
    factor = names.memory_factor
    return "MiB" if factor <= 1 else "GiB" if factor == 1024 else f"x {factor} MiB"


def _card_demand(position: int, container: ContainerRequest, stage: str, names: VgpuConf) -> CardDemand | None:
    """Return the demand of one container, None without one.

    ``vgpu-memory`` 0 counts as absent (Volcano api/devices/util.go); a percentage overrides it.
    """
    number, memory, percentage, cores = (
        container.get(name) if name else None for name in (names.number, names.memory, names.percentage, names.cores)
    )
    if not any((number, memory, percentage, cores)):
        return None
    field = f"spec.{'initContainers' if stage else 'containers'}[{container.name}].resources.limits"
    if number is not None and not 0 < number <= MAX_CARDS:
        expected = f"1 to {MAX_CARDS}, or no vGPU resources at all"
        raise RequestError("Pod", f"{field}[{names.number}]", number, expected)
    if (cores or 0) > ALL_CORES:
        raise RequestError("Pod", f"{field}[{names.cores}]", cores, "0 to 100 (percent of each card)")
    if (percentage or 0) > 100:
        raise RequestError("Pod", f"{field}[{names.percentage}]", percentage, "1 to 100 (percent of each card)")
    return CardDemand(
        count=names.default_number if number is None else number,
        memory=memory or names.default_memory,
        cores=names.default_cores if cores is None else cores,
        memory_percentage=percentage or 0,
        container=container.name,
        position=position,
        stage=stage,
    )
