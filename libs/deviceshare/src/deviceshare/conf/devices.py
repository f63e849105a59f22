"""``device-config.yaml``: the names of the vGPU resources, MIG geometries, Ascend chips.

One file serves Volcano, us and the device plugins; what only the plugins read is checked and has no effect here. A key
that nobody knows is a warning. Sources: volcano-sh/volcano (pkg/scheduler/api/devices/config),
Project-HAMi/volcano-vgpu-device-plugin (pkg/config), Project-HAMi/ascend-device-plugin.

Beyond Volcano: where the section ``nvidia`` or one of its names is missing the usual names hold, except that a
percentage can only be asked where the file names its resource; what cannot be meant is refused.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from deviceshare.conf.device_model import (
    MOST_INSTANCES,
    DevicesConf,
    MigGroup,
    MigInstance,
    MigModel,
    VgpuConf,
    VnpuChip,
    VnpuTemplate,
)
from deviceshare.conf.document import as_text, read_document
from deviceshare.conf.reading import LARGEST, Reader

KEY = "device-config.yaml"
"""The key of the ConfigMap's data."""

_EXPECTED = f"the sections nvidia and vnpus, or a ConfigMap with the key {KEY}"
_VGPU_KEYS = (
    "resourceCountName", "resourceMemoryName", "resourceMemoryPercentageName", "resourceCoreName", "defaultMemory",
    "defaultCores", "defaultGPUNum", "gpuMemoryFactor", "knownMigGeometries",
)  # fmt: skip
_PLUGIN_SWITCHES = ("overwriteEnv", "disableCoreLimit", "passDeviceSpecs")
_PLUGIN_SCALES = ("deviceMemoryScaling", "deviceCoreScaling")
_PLUGIN_KEYS = (*_PLUGIN_SWITCHES, *_PLUGIN_SCALES, "deviceSplitCount", "resourcePriorityName", "migstrategy")
"""What only the device plugin and its webhook read; its effect stands in what the plugin registers."""
_CHIP_KEYS = (
    "chipName", "commonWord", "resourceName", "resourceMemoryName", "resourceCoreName", "memoryAllocatable",
    "memoryCapacity", "aiCore", "aiCPU", "templates",
)  # fmt: skip

_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_GROUP = re.compile(r"[A-Za-z0-9_.]+")
_NAME = re.compile(r"[^\s,:;\[\]]+")


def parse_devices(text: str, source: str) -> DevicesConf:
    """Return what a ``device-config.yaml`` says.

    Args:
        text: the file, or a ConfigMap manifest that holds it, alone or among others.
        source: where it comes from, for messages.

    Raises:
        ConfigError: names the source, the field, its value and what would be right.
    """
    return _Reader(source).read(text)


class _Reader(Reader):
    """Reads one file."""

    def read(self, text: str) -> DevicesConf:
        document = read_document(text, self.source, KEY, _EXPECTED, self.warnings)
        if not isinstance(document, dict):
            raise self.error("$", document, _EXPECTED)
        sections = self.mapping("$", document)
        self.keys("", sections, ("nvidia", "vnpus"))
        nvidia = sections.get("nvidia")
        vgpu = VgpuConf() if nvidia is None else self.vgpu(self.mapping("nvidia", nvidia))
        hami_vnpu_core, chips = self.vnpus(sections.get("vnpus"))
        self.each_name_once(vgpu, chips)
        return DevicesConf(vgpu=vgpu, chips=chips, hami_vnpu_core=hami_vnpu_core, warnings=tuple(self.warnings))

    # nvidia

    def vgpu(self, section: dict[str, Any]) -> VgpuConf:
        self.keys("nvidia", section, (*_VGPU_KEYS, *_PLUGIN_KEYS))
        for key in _PLUGIN_SWITCHES:
            self.truth(f"nvidia.{key}", section.get(key))
        for key in _PLUGIN_SCALES:
            self.scale(f"nvidia.{key}", section.get(key))
        self.number("nvidia", section, "deviceSplitCount", 0)
        usual = VgpuConf()
        factor = self.number("nvidia", section, "gpuMemoryFactor", 1) or 1
        return VgpuConf(
            number=self.resource("nvidia", section, "resourceCountName", usual.number) or usual.number,
            memory=self.resource("nvidia", section, "resourceMemoryName", usual.memory),
            percentage=self.resource("nvidia", section, "resourceMemoryPercentageName", ""),
            cores=self.resource("nvidia", section, "resourceCoreName", usual.cores),
            # The device plugin's guide: where it is 0 it has no effect.
            default_number=self.number("nvidia", section, "defaultGPUNum", 1) or 1,
            default_memory=self.number("nvidia", section, "defaultMemory", 0),
            default_cores=self.number("nvidia", section, "defaultCores", 0, most=100),
            memory_factor=factor,
            geometries=self.geometries(section.get("knownMigGeometries"), factor),
        )

    def geometries(self, value: Any, factor: int) -> tuple[MigModel, ...]:
        field = "nvidia.knownMigGeometries"
        models: list[MigModel] = []
        for number, each in enumerate(self.items(field, value)):
            model = self.model(f"{field}[{number}]", each, factor)
            for name in model.models:
                self.warn_of_shadow(f"{field}[{number}].models", name, models)
            models.append(model)
        return tuple(models)

    def warn_of_shadow(self, field: str, name: str, before: list[MigModel]) -> None:
        """Models match as parts of a card's type, the first entry that matches counts."""
        for number, model in enumerate(before):
            if shadow := next((other for other in model.models if other in name), ""):
                self.warn(
                    field, f"'{name}' has no effect: its cards match '{shadow}' of knownMigGeometries[{number}] first"
                )
                return

    def model(self, field: str, value: Any, factor: int) -> MigModel:
        entry = self.mapping(field, value)
        self.keys(field, entry, ("models", "allowedGeometries"))
        names = self.some(f"{field}.models", entry.get("models"), "models of cards, as parts of their type")
        for number, name in enumerate(names):
            if not isinstance(name, str) or not name.strip():
                raise self.error(
                    f"{field}.models[{number}]", name, "a part of the type of cards, such as A100-SXM4-80GB"
                )
        groups = tuple(
            self.group(f"{field}.allowedGeometries[{number}]", each, factor)
            for number, each in enumerate(
                self.some(f"{field}.allowedGeometries", entry.get("allowedGeometries"), "groups")
            )
        )
        self.each_once(f"{field}.allowedGeometries", (group.name for group in groups), "each group once")
        return MigModel(tuple(dict.fromkeys(name.strip() for name in names)), groups)

    def group(self, field: str, value: Any, factor: int) -> MigGroup:
        entry = self.mapping(field, value)
        self.keys(field, entry, ("group", "geometries"))
        expected = "a name of letters, digits, _ and . that stands in the id of a device: UUID[group-position]"
        name = self.name(field, entry, "group", _GROUP, expected)
        instances = tuple(
            self.instance(f"{field}.geometries[{number}]", each, factor)
            for number, each in enumerate(self.some(f"{field}.geometries", entry.get("geometries"), "instances"))
        )
        total = sum(instance.count for instance in instances)
        if total > MOST_INSTANCES:
            raise self.error(
                f"{field}.geometries", f"{total} instances in {name}", f"at most {MOST_INSTANCES} instances in a group"
            )
        sizes = Counter(name for name, _ in {(instance.name, instance.memory) for instance in instances})
        for instance, different in sizes.items():
            if different > 1:
                raise self.error(f"{field}.geometries", instance, "one memory for all instances of a name")
        return MigGroup(name, instances)

    def instance(self, field: str, value: Any, factor: int) -> MigInstance:
        entry = self.mapping(field, value)
        self.keys(field, entry, ("name", "memory", "count"))
        return MigInstance(
            self.name(field, entry, "name", _NAME, "the name of a MIG profile, such as 1g.10gb"),
            self.number(field, entry, "memory", None, least=factor),
            self.number(field, entry, "count", None, least=1, most=MOST_INSTANCES),
        )

    # vnpus

    def vnpus(self, value: Any) -> tuple[bool, tuple[VnpuChip, ...]]:
        """Read both forms: a list of chips, or the same under ``configs`` with ``hamiVnpuCore`` beside it."""
        field, hami_vnpu_core = "vnpus", False
        if isinstance(value, dict):
            section = self.mapping(field, value)
            self.keys(field, section, ("hamiVnpuCore", "configs"))
            hami_vnpu_core = self.truth(f"{field}.hamiVnpuCore", section.get("hamiVnpuCore"))
            field, value = f"{field}.configs", section.get("configs")
        chips = tuple(self.chip(f"{field}[{number}]", each) for number, each in enumerate(self.items(field, value)))
        self.each_once(field, (chip.word for chip in chips), "each commonWord once")
        return hami_vnpu_core, chips

    def chip(self, field: str, value: Any) -> VnpuChip:
        entry = self.mapping(field, value)
        self.keys(field, entry, _CHIP_KEYS)
        word = self.name(
            field, entry, "commonWord", _WORD, "the word by which nodes register the chip, such as Ascend910B3"
        )
        resource = self.resource(field, entry, "resourceName", "")
        if not resource:
            raise self.error(f"{field}.resourceName", "", f"the resource by which pods ask {word}")
        allocatable = self.number(field, entry, "memoryAllocatable", None, least=1)
        chip = VnpuChip(
            name=as_text(entry.get("chipName")) or word,
            word=word,
            resource=resource,
            memory_resource=self.resource(field, entry, "resourceMemoryName", ""),
            core_resource=self.resource(field, entry, "resourceCoreName", f"{resource}-core"),
            memory_allocatable=allocatable,
            memory_capacity=self.number(field, entry, "memoryCapacity", allocatable, least=allocatable),
            ai_cores=self.number(field, entry, "aiCore", None, least=1),
            ai_cpus=self.number(field, entry, "aiCPU", 0),
        )
        templates = [
            template
            for number, each in enumerate(self.items(f"{field}.templates", entry.get("templates")))
            if (template := self.template(f"{field}.templates[{number}]", each, chip)) is not None
        ]
        self.each_once(f"{field}.templates", (template.name for template in templates), "each template once")
        return replace(chip, templates=tuple(sorted(templates, key=lambda template: template.memory)))

    def template(self, field: str, value: Any, chip: VnpuChip) -> VnpuTemplate | None:
        """Return a template; None, with a warning, for one that the chip can never give."""
        entry = self.mapping(field, value)
        self.keys(field, entry, ("name", "memory", "aiCore", "aiCPU"))
        template = VnpuTemplate(
            self.name(field, entry, "name", _NAME, "the name of a template, such as vir05_1c_16g"),
            self.number(field, entry, "memory", None, least=1),
            self.number(field, entry, "aiCore", 0),
            self.number(field, entry, "aiCPU", 0),
        )
        for key, asked, has, of_chip in (
            ("memory", template.memory, chip.memory_allocatable, "memoryAllocatable"),
            ("aiCore", template.ai_cores, chip.ai_cores, "aiCore"),
            ("aiCPU", template.ai_cpus, chip.ai_cpus or LARGEST, "aiCPU"),
        ):
            if asked > has:
                self.warn(
                    f"{field}.{key}",
                    f"{template.name} is left out: {asked} is more than the {of_chip} of {chip.word}, {has}",
                )
                return None
        return template

    # Values

    def some(self, field: str, value: Any, what: str) -> list[Any]:
        items = self.items(field, value)
        if not items:
            raise self.error(field, value, f"a list of {what}, at least one")
        return items

    def number(
        self, field: str, section: dict[str, Any], key: str, default: int | None, least: int = 0, most: int = LARGEST
    ) -> int:
        """Return a whole number; where it is missing the default, if there is one."""
        value = section.get(key)
        if value is None and default is not None:
            return default
        return self.whole(f"{field}.{key}", value, least, most)

    def scale(self, field: str, value: Any) -> None:
        try:
            usable = value is None or float(as_text(value)) > 0
        except ValueError:
            usable = False
        if not usable:
            raise self.error(field, value, "a number above 0")

    def name(self, field: str, section: dict[str, Any], key: str, form: re.Pattern[str], expected: str) -> str:
        text = as_text(section.get(key)).strip()
        if not form.fullmatch(text):
            raise self.error(f"{field}.{key}", section.get(key), expected)
        return text

    def resource(self, field: str, section: dict[str, Any], key: str, default: str) -> str:
        """Return the name of a resource, '' where the file says so; where it says nothing the default."""
        value = section.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or (value and not _RESOURCE.fullmatch(value)):
            raise self.error(
                f"{field}.{key}", value, "the name of an extended resource, such as volcano.sh/vgpu-number"
            )
        return value

    def each_once(self, field: str, names: Iterable[str], expected: str) -> None:
        for name, times in Counter(names).items():
            if times > 1:
                raise self.error(field, name, f"{expected}: it stands here {times} times")

    def each_name_once(self, vgpu: VgpuConf, chips: tuple[VnpuChip, ...]) -> None:
        """Make sure that a resource means one thing."""
        named = [
            *((name, "nvidia") for name in (vgpu.number, vgpu.memory, vgpu.percentage, vgpu.cores)),
            *(
                (name, chip.word)
                for chip in chips
                for name in (chip.resource, chip.memory_resource, chip.core_resource)
            ),
        ]
        meaning: dict[str, str] = {}
        for name, owner in named:
            if name and name in meaning:
                raise self.error("$", name, f"a resource to be named once: it stands in {meaning[name]} and {owner}")
            meaning[name] = owner
