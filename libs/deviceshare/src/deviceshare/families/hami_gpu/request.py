"""The request of a pod for GPUs of HAMi: the limits of its containers, and its annotations.

Source: HAMi pkg/device/nvidia/device.go (``GenerateResourceRequests``). Unlike in Volcano's vGPUs, an amount of memory
overrides a percentage. Deviations from HAMi: more than 100 percent is refused instead of reduced to 100, and memory or
cores without a number of GPUs too, since kubelet asks the device plugin for these numbers only (HAMi's webhook adds
the number; its scheduler alone ignores such a container).
"""

from deviceshare.conf import SchedulerConf
from deviceshare.families import common, selection
from deviceshare.families.hami_gpu import wire
from deviceshare.families.hami_gpu.section import HamiConf
from deviceshare.families.hardware import NVIDIA
from deviceshare.families.protocol import MAX_CARDS, CardDemand, Demand
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.model import ContainerRequest, PodRequest, RequestError

FLAG = "deviceshare.HAMiGPUEnable"
WISHES = selection.WISHES | {
    wire.MODE_WISH,
    wire.USE_ID,
    wire.NOUSE_ID,
    wire.NUMA_BIND,
}
"""Annotations by which a pod restricts cards."""
_ALL_CORES = wire.CARD_CORES
_TRUE = ("1", "t", "T", "TRUE", "true", "True")


def is_overridden(conf: SchedulerConf) -> bool:
    """Return whether another section of device-config.yaml, such as ``nvidia``, has names of HAMi's resources."""
    names = {name for name, _ in conf.devices.section(HamiConf).resources()}
    return not names.isdisjoint(conf.devices.resources(without=HamiConf))


def read_demand(family: str, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
    """Return the demand of a pod, one :class:`CardDemand` for each container; None for none.

    A request for ``nvidia.com/gpu`` alone is one of HAMi only where ``deviceshare.HAMiGPUEnable`` is set, and nodes
    that HAMi does not register serve it as well, unless the section ``hami`` renames the resource.

    Raises:
        RequestError: the request is invalid, or asks what is not supported.
    """
    names = conf.devices.section(HamiConf)
    if is_overridden(conf):
        return None
    demands = (_card_demand(position, container, stage, names) for stage, position, container in common.by_stage(ask))
    cards = tuple(demand for demand in demands if demand is not None)
    if not cards:
        return None
    plain = not any(
        container.get(name)
        for container in (*ask.containers, *ask.init_containers)
        for name in (names.memory, names.percentage, names.cores)
        if name
    )
    if plain and FLAG not in conf.families:
        return None
    _check_annotations(ask)
    restrictions = selection.restrictions(ask, conf, wire.USE_ID, wire.NOUSE_ID)
    # Whole GPUs have no ids, and no other name.
    or_whole = plain and names.number == NVIDIA.whole and not (restrictions["use_ids"] or restrictions["nouse_ids"])
    return Demand(family=family, cards=cards, or_whole=or_whole, **restrictions)


def _check_annotations(ask: PodRequest) -> None:
    """Refuse what only HAMi's scheduler supports."""
    mode = ask.annotation(wire.MODE_WISH)
    if mode is not None and vgpu_wire.HAMI_CORE not in mode:
        expected = f"{vgpu_wire.HAMI_CORE}, or nothing: MIG and MPS of HAMi are not supported"
        raise RequestError("Pod", f"metadata.annotations[{wire.MODE_WISH}]", mode, expected)
    numa = (ask.annotation(wire.NUMA_BIND) or "").strip()
    if numa in _TRUE:
        expected = "false, or nothing: cards of one NUMA node are not supported"
        raise RequestError("Pod", f"metadata.annotations[{wire.NUMA_BIND}]", numa, expected)


def _card_demand(position: int, container: ContainerRequest, stage: str, names: HamiConf) -> CardDemand | None:
    """Return the demand of one container, None without one. Memory 0 and percentage 0 count as absent."""
    number, memory, percentage, cores = (
        container.get(name) if name else None for name in (names.number, names.memory, names.percentage, names.cores)
    )
    if not any((number, memory, percentage, cores)):
        return None
    field = f"spec.{'initContainers' if stage else 'containers'}[{container.name}].resources.limits"
    if not number or number > MAX_CARDS:
        expected = f"1 to {MAX_CARDS}: kubelet asks HAMi's device plugin for {names.number} only"
        raise RequestError("Pod", f"{field}[{names.number}]", "" if number is None else number, expected)
    for name, amount in ((names.cores, cores), (names.percentage, percentage)):
        if (amount or 0) > 100:
            raise RequestError("Pod", f"{field}[{name}]", amount, "0 to 100 (percent of each card)")
    asked = (memory or 0) * names.request_factor
    percent = 0 if asked else percentage or 0
    return CardDemand(
        count=number,
        memory=asked or (0 if percent else names.default_memory),
        cores=names.default_cores if cores is None else cores,
        memory_percentage=percent,
        container=container.name,
        position=position,
        stage=stage,
    )
