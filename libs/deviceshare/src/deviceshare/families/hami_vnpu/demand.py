"""The request of a pod for Ascend chips in HAMi's mode, and its templates.

Rules: Volcano pkg/scheduler/api/devices/ascend/hami, HAMi pkg/device/ascend. Deviations from Volcano: a
request for more memory than a chip has is refused, as are 0 devices, and cores together with a template.
"""

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.card_lists import items
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf, VnpuTemplate
from deviceshare.families.mindcluster import wire as mindcluster_wire
from deviceshare.families.protocol import MAX_CARDS, CardDemand, Demand
from deviceshare.model import INIT, SIDECAR, ContainerRequest, PodRequest, RequestError

ALL_CORES = 100
"""Cores of a chip under HAMi-core, percent."""

_LINKED_CHIPS = "Ascend910"
"""The prefix of the words of chips that are linked in networks."""
FLAG = "deviceshare.AscendHAMiVNPUEnable"


class VnpuCardDemand(CardDemand, frozen=True, kw_only=True):
    """The demand of one container: ``memory`` MiB are charged on each chip, 0 for the whole chip.

    ``cut`` as in :class:`.wire.Detail`, with the AI cores and AI CPUs of the template (0 under HAMi-core); ``asked``
    are the requested MiB, -1 where they equal the charged MiB. ``number`` is the same for containers of the pod with
    the same template.
    """

    cut: str = ""
    ai_cores: int = 0
    ai_cpus: int = 0
    asked: int = -1
    number: int = 1


class VnpuDemand(Demand, frozen=True, kw_only=True):
    """The demand of a pod for one kind of chip; ``shared``: shares under HAMi-core instead of templates."""

    chip: VnpuChip
    cards: tuple[VnpuCardDemand, ...]
    shared: bool = False

    @property
    def linked(self) -> bool:
        """Whether chips of this kind are linked in networks."""
        return self.chip.word.startswith(_LINKED_CHIPS)


def template_for(chip: VnpuChip, memory: int) -> VnpuTemplate | None:
    """Return the smallest template with at least ``memory`` MiB, None for the whole chip."""
    return next((template for template in chip.templates if memory <= template.memory), None)


def read_demand(family: str, ask: PodRequest, conf: SchedulerConf) -> VnpuDemand | None:
    """Return the demand of a pod for Ascend chips, or None.

    The number of chips alone is a plain amount of the node where the chips are not registered, if Ascend's own device
    plugin offers whole NPUs by this name as well. Where the family is turned off, it is one on all nodes. Other names
    are HAMi's alone: its plugin offers them to kubelet a second before it registers the chips (``watchAndRegister``),
    and would refuse a pod that is bound in between.
    """
    chip = _chip(ask, conf)
    if chip is None:
        return None
    plain = ask.annotation(wire.MODE) is None and not any(
        container.get(name)
        for container in (*ask.containers, *ask.init_containers)
        for name in (chip.memory_resource, chip.core_resource)
        if name
    )
    if plain and FLAG not in conf.families:
        return None
    shared = _is_shared(ask)
    cards: list[VnpuCardDemand] = []
    numbers: dict[tuple[str, int, int], int] = {}
    for stage, position, container in common.by_stage(ask, (SIDECAR, "", INIT)):
        asked = _Asked(chip, shared, container, stage)
        if asked.is_nothing:
            continue
        cut, memory, cores = key = asked.cut()
        template = next((each for each in chip.templates if each.name == cut), None)
        cards.append(
            VnpuCardDemand(
                count=asked.count(whole=memory == 0),
                memory=memory,
                cores=cores,
                container=container.name,
                position=position,
                stage=stage,
                cut=cut,
                ai_cores=0 if shared else template.ai_cores if template else chip.ai_cores,
                ai_cpus=0 if shared else template.ai_cpus if template else chip.ai_cpus,
                asked=asked.memory if asked.memory and asked.memory != memory else -1,
                number=numbers.setdefault(key, len(numbers) + 1),
            )
        )
    if not cards:
        return None
    use_ids, nouse_ids = (items(ask.annotation(name.replace("*", chip.word))) for name in (wire.USE_ID, wire.NOUSE_ID))
    return VnpuDemand(
        family=family,
        cards=tuple(cards),
        mode=wire.HAMI_CORE if shared else "",
        use_ids=use_ids,
        nouse_ids=nouse_ids,
        card_type=chip.word,
        # Whole NPUs of Ascend's own plugin have no ids.
        or_whole=plain and chip.resource in mindcluster_wire.WHOLE_NPUS and not (use_ids or nouse_ids),
        chip=chip,
        shared=shared,
    )


def _chip(ask: PodRequest, conf: SchedulerConf) -> VnpuChip | None:
    """Return the kind of chip that a pod requests, or None."""
    names = {
        name: chip
        for chip in conf.devices.section(VnpuConf).chips
        for name in (chip.resource, chip.memory_resource, chip.core_resource)
        if name
    }
    found: VnpuChip | None = None
    for part, containers in (("containers", ask.containers), ("initContainers", ask.init_containers)):
        for container in containers:
            for name, amount in container.resources:
                chip = names.get(name)
                found = found or chip
                if found is not None and chip not in (None, found):
                    field = f"spec.{part}[{container.name}].resources.limits[{name}]"
                    expected = f"{found.resource} alone: no node has two kinds of Ascend chips"
                    raise RequestError("Pod", field, amount, expected)
    return found


def _is_shared(ask: PodRequest) -> bool:
    mode = (ask.annotation(wire.MODE) or "").strip()
    if mode not in ("", wire.HAMI_CORE):
        expected = f"{wire.HAMI_CORE}, or nothing for a template"
        raise RequestError("Pod", f"metadata.annotations[{wire.MODE}]", mode, expected)
    return mode == wire.HAMI_CORE


class _Asked:
    """The three amounts of one container's request, None if absent."""

    def __init__(self, chip: VnpuChip, shared: bool, container: ContainerRequest, stage: str) -> None:
        self.chip = chip
        self.shared = shared
        self.devices = container.get(chip.resource)
        self.memory = container.get(chip.memory_resource) if chip.memory_resource else None
        self.cores = container.get(chip.core_resource) if chip.core_resource else None
        part = "initContainers" if stage else "containers"
        self.limits = f"spec.{part}[{container.name}].resources.limits"

    @property
    def is_nothing(self) -> bool:
        return self.devices is None and not self.memory and not self.cores

    def count(self, *, whole: bool) -> int:
        """Return the number of chips: 1 if only memory is requested."""
        if self.devices is None and not self.memory:
            raise self.wrong(self.chip.core_resource, self.cores, f"{self.chip.resource} beside it")
        count = 1 if self.devices is None else self.devices
        if not 1 <= count <= MAX_CARDS:
            raise self.wrong(self.chip.resource, count, f"1 to {MAX_CARDS} chips, or none of its resources")
        if count > 1 and not (whole or self.shared):
            largest = self.chip.templates[-1].memory
            expected = f"more than {largest} MiB or nothing: {count} chips can only be had whole"
            raise self.wrong(self.chip.memory_resource, self.memory, expected)
        return count

    def cut(self) -> tuple[str, int, int]:
        """Return the partition of each chip, the charged MiB (0: all) and the percentage of its cores."""
        memory, cores = self.memory or 0, self.cores or 0
        if memory > self.chip.memory_capacity:
            expected = f"at most {self.chip.memory_capacity} MiB, which is all of a {self.chip.word}"
            raise self.wrong(self.chip.memory_resource, memory, expected)
        if self.shared:
            if cores > ALL_CORES:
                raise self.wrong(self.chip.core_resource, cores, f"0 to {ALL_CORES} (percent of each chip)")
            return wire.HAMI_CORE, memory, cores
        if cores:
            expected = (
                f"nothing: without the annotation {wire.MODE}: {wire.HAMI_CORE} the template has its own AI cores"
            )
            raise self.wrong(self.chip.core_resource, cores, expected)
        template = template_for(self.chip, memory) if memory else None
        return (template.name, template.memory, 0) if template else ("", 0, 0)

    def wrong(self, resource: str, value: int | None, expected: str) -> RequestError:
        return RequestError("Pod", f"{self.limits}[{resource}]", value, expected)
