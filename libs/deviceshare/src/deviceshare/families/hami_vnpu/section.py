"""Section ``vnpus`` of ``device-config.yaml``: the Ascend chips and their templates.

Units: MiB of device memory. Sources: volcano-sh/volcano (pkg/scheduler/api/devices/config),
Project-HAMi/ascend-device-plugin.
"""

import re
from collections.abc import Iterable
from math import inf
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from deviceshare.conf import ConfField, DeviceSection
from deviceshare.model import as_text

CHIP_KEYS = (
    "chipName", "commonWord", "resourceName", "resourceMemoryName", "resourceCoreName", "memoryAllocatable",
    "memoryCapacity", "aiCore", "aiCPU", "templates",
)  # fmt: skip
_CHIP_PLUGIN_KEYS = ("runtimeClassName", "overwriteEnv")
"""Keys of a chip that only HAMi's webhook reads."""

_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_TEMPLATE = re.compile(r"[^\s,:;\[\]]+")


class VnpuTemplate(msgspec.Struct, frozen=True):
    """A fixed partition of an Ascend chip: MiB, AI cores, AI CPUs."""

    name: str
    memory: int
    ai_cores: int
    ai_cpus: int = 0


class VnpuChip(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One chip of section ``vnpus``; ``word`` is its ``commonWord``, by which nodes register it."""

    name: str
    word: str
    resource: str
    memory_resource: str
    core_resource: str = ""
    """Requested by pods that share a chip through HAMi-core; '' if no cores can be requested."""
    memory_allocatable: int
    memory_capacity: int
    ai_cores: int
    ai_cpus: int = 0
    templates: tuple[VnpuTemplate, ...] = ()
    """Sorted by memory, the smallest first."""


ASCEND_310P = VnpuChip(
    name="310P3",
    word="Ascend310P",
    resource="huawei.com/Ascend310P",
    memory_resource="huawei.com/Ascend310P-memory",
    core_resource="huawei.com/Ascend310P-core",
    memory_allocatable=21527,
    memory_capacity=24576,
    ai_cores=8,
    ai_cpus=7,
    templates=(
        VnpuTemplate("vir01", 3072, 1, 1),
        VnpuTemplate("vir02", 6144, 2, 2),
        VnpuTemplate("vir04", 12288, 4, 4),
    ),
)


class VnpuConf(DeviceSection, frozen=True, kw_only=True):
    """Section ``vnpus``; ``hami_vnpu_core``: HAMi-core shares the chips of nodes without their own setting."""

    key: ClassVar[str] = "vnpus"
    product: ClassVar[str] = "HAMi's Ascend plugin"
    chips: tuple[VnpuChip, ...] = ()
    hami_vnpu_core: bool = False

    @classmethod
    def read(cls, field: ConfField) -> Self:
        """Read both forms: a list of chips, or a mapping with the list under ``configs``, and ``hamiVnpuCore``."""
        hami_vnpu_core = False
        if isinstance(field.value, dict):
            section = field.section(("hamiVnpuCore", "configs"))
            hami_vnpu_core, field = section["hamiVnpuCore"].boolean(), section["configs"]
        chips = tuple(_chip(each) for each in field.items())
        field.check_unique((chip.word for chip in chips), "each commonWord once")
        return cls(chips=chips, hami_vnpu_core=hami_vnpu_core)

    @classmethod
    def built_in(cls) -> Self:
        """Return the chip that Volcano knows without a file."""
        return cls(chips=(ASCEND_310P,))

    def resources(self) -> Iterable[tuple[str, str]]:
        """Return the resources of each kind of chip, its memory and its cores."""
        return (
            (name, chip.word)
            for chip in self.chips
            for name in (chip.resource, chip.memory_resource, chip.core_resource)
        )

    def chip(self, word: str) -> VnpuChip | None:
        """Return the chip with this common word, None for none."""
        # A generator would cost a microsecond for each pod.
        for chip in self.chips:
            if chip.word == word:
                return chip
        return None


def _chip(field: ConfField) -> VnpuChip:
    entry = field.section((*CHIP_KEYS, *_CHIP_PLUGIN_KEYS, "memoryFactor"))
    word = entry["commonWord"].matching(_WORD, "the word by which nodes register the chip, such as Ascend910B3")
    resource = entry["resourceName"].resource("")
    if not resource:
        raise entry["resourceName"].error(f"the resource by which pods request {word}")
    if entry["memoryFactor"].number(default=0) > 1:
        raise entry["memoryFactor"].error("1: the memory of chips is requested in MiB")
    allocatable = entry["memoryAllocatable"].number(1)
    chip = VnpuChip(
        name=as_text(entry["chipName"].value) or word,
        word=word,
        resource=resource,
        memory_resource=entry["resourceMemoryName"].resource(""),
        core_resource=entry["resourceCoreName"].resource(f"{resource}-core"),
        memory_allocatable=allocatable,
        memory_capacity=entry["memoryCapacity"].number(allocatable, default=allocatable),
        ai_cores=entry["aiCore"].number(1),
        ai_cpus=entry["aiCPU"].number(default=0),
    )
    templates = [template for each in entry["templates"].items() if (template := _template(each, chip)) is not None]
    entry["templates"].check_unique((template.name for template in templates), "each template once")
    return replace(chip, templates=tuple(sorted(templates, key=lambda template: template.memory)))


def _template(field: ConfField, chip: VnpuChip) -> VnpuTemplate | None:
    """Return a template; None, with a warning, if it exceeds the chip."""
    entry = field.section(("name", "memory", "aiCore", "aiCPU"))
    template = VnpuTemplate(
        entry["name"].matching(_TEMPLATE, "the name of a template, such as vir05_1c_16g"),
        entry["memory"].number(1),
        entry["aiCore"].number(default=0),
        entry["aiCPU"].number(default=0),
    )
    for key, asked, has, of_chip in (
        ("memory", template.memory, chip.memory_allocatable, "memoryAllocatable"),
        ("aiCore", template.ai_cores, chip.ai_cores, "aiCore"),
        ("aiCPU", template.ai_cpus, chip.ai_cpus or inf, "aiCPU"),
    ):
        if asked > has:
            entry[key].warn(f"{template.name} is left out: {asked} is more than the {of_chip} of {chip.word}, {has}")
            return None
    return template
