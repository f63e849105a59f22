"""``device-config.yaml``: the names of the vGPU resources, MIG geometries, Ascend chips.

Volcano, deviceshare and the device plugins read the same file; keys for the plugins only are checked and have no
effect here, and unknown keys are warnings. Sources: volcano-sh/volcano (pkg/scheduler/api/devices/config),
Project-HAMi/volcano-vgpu-device-plugin (pkg/config), Project-HAMi/ascend-device-plugin.

Beyond Volcano: the default names apply if the section ``nvidia`` or one of its names is missing, except that a
percentage can be requested only if the file names its resource; invalid values are errors.
"""

import re
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from deviceshare.conf.device_model import (
    MAX_INSTANCES,
    DevicesConf,
    HamiConf,
    MigGroup,
    MigInstance,
    MigModel,
    VgpuConf,
    VnpuChip,
    VnpuTemplate,
)
from deviceshare.conf.device_sections import device_sections
from deviceshare.conf.reading import LARGEST, ConfField, read_root
from deviceshare.model import as_text

KEY = "device-config.yaml"
"""The key of the ConfigMap's data."""

_EXPECTED = f"the sections nvidia, hami and vnpus, or a ConfigMap with the key {KEY}"
_VGPU_KEYS = (
    "resourceCountName", "resourceMemoryName", "resourceMemoryPercentageName", "resourceCoreName", "defaultMemory",
    "defaultCores", "defaultGPUNum", "gpuMemoryFactor", "knownMigGeometries",
)  # fmt: skip
_PLUGIN_SWITCHES = ("overwriteEnv", "disableCoreLimit", "passDeviceSpecs")
_PLUGIN_SCALES = ("deviceMemoryScaling", "deviceCoreScaling")
_PLUGIN_KEYS = (*_PLUGIN_SWITCHES, *_PLUGIN_SCALES, "deviceSplitCount", "resourcePriorityName", "migstrategy")
"""Keys that only the device plugin and its webhook read; the plugin registers cards accordingly."""
_HAMI_KEYS = (*(key for key in _VGPU_KEYS if key not in ("gpuMemoryFactor", "knownMigGeometries")), "memoryFactor",
              "resourcePriorityName")  # fmt: skip
_HAMI_PLUGIN_KEYS = (
    *_PLUGIN_SWITCHES, *_PLUGIN_SCALES, "deviceSplitCount", "migstrategy", "preConfiguredDeviceMemory",
    "enableNumaTopology", "gpuCorePolicy", "libCudaLogLevel", "runtimeClassName", "migProfileAllowlist",
    "knownMigGeometries",
)  # fmt: skip
"""Keys of HAMi's section ``nvidia`` that only its device plugin and its webhook read."""
_CHIP_KEYS = (
    "chipName", "commonWord", "resourceName", "resourceMemoryName", "resourceCoreName", "memoryAllocatable",
    "memoryCapacity", "aiCore", "aiCPU", "templates",
)  # fmt: skip
_CHIP_PLUGIN_KEYS = ("runtimeClassName", "overwriteEnv")
"""Keys of a chip that only HAMi's webhook reads."""

_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_GROUP = re.compile(r"[A-Za-z0-9_.]+")
_NAME = re.compile(r"[^\s,:;\[\]]+")


def parse_devices(text: str, source: str) -> DevicesConf:
    """Return the configuration of a ``device-config.yaml``.

    Args:
        text: the file, or a ConfigMap manifest with the file, possibly among other documents.
        source: the source of the text, for messages.

    Raises:
        ConfigError: names the source with line and column, the field, its value and the expected value.
    """
    root = read_root(text, source, KEY, _EXPECTED)
    root.mapping(_EXPECTED)
    kinds = device_sections()
    sections = root.section(("nvidia", "hami", "vnpus", *(kind.key for kind in kinds)))
    vgpu = VgpuConf() if sections["nvidia"].value is None else _vgpu(sections["nvidia"])
    hami = HamiConf() if sections["hami"].value is None else _hami(sections["hami"])
    hami_vnpu_core, chips = _vnpus(sections["vnpus"])
    declared = tuple(kind.read(sections[kind.key]) for kind in kinds if sections[kind.key].value is not None)
    named = [(name, section.key) for section in declared for name in section.resources()]
    _check_resources(root, vgpu, None if sections["hami"].value is None else hami, chips, named)
    return DevicesConf(
        vgpu=vgpu,
        hami=hami,
        chips=chips,
        hami_vnpu_core=hami_vnpu_core,
        sections=declared,
        warnings=tuple(warning.text for warning in root.source.warnings),
    )


# nvidia


def _vgpu(field: ConfField) -> VgpuConf:
    section = field.section((*_VGPU_KEYS, *_PLUGIN_KEYS))
    for key in _PLUGIN_SWITCHES:
        section[key].boolean()
    for key in _PLUGIN_SCALES:
        _check_scale(section[key])
    _number(section["deviceSplitCount"], 0)
    usual = VgpuConf()
    factor = _number(section["gpuMemoryFactor"], 1) or 1
    return VgpuConf(
        number=_resource(section["resourceCountName"], usual.number) or usual.number,
        memory=_resource(section["resourceMemoryName"], usual.memory),
        percentage=_resource(section["resourceMemoryPercentageName"], ""),
        cores=_resource(section["resourceCoreName"], usual.cores),
        # The device plugin's guide: 0 has no effect.
        default_number=_number(section["defaultGPUNum"], 1) or 1,
        default_memory=_number(section["defaultMemory"], 0),
        default_cores=_number(section["defaultCores"], 0, most=100),
        memory_factor=factor,
        geometries=_geometries(section["knownMigGeometries"], factor),
    )


def _hami(field: ConfField) -> HamiConf:
    """Read the section ``nvidia`` of the device-config.yaml of HAMi, under the name ``hami``."""
    section = field.section((*_HAMI_KEYS, *_HAMI_PLUGIN_KEYS))
    usual = HamiConf()
    return HamiConf(
        number=_resource(section["resourceCountName"], usual.number) or usual.number,
        memory=_resource(section["resourceMemoryName"], usual.memory),
        percentage=_resource(section["resourceMemoryPercentageName"], usual.percentage),
        cores=_resource(section["resourceCoreName"], usual.cores),
        priority=_resource(section["resourcePriorityName"], usual.priority),
        default_number=_number(section["defaultGPUNum"], 0) or 1,
        default_memory=_number(section["defaultMemory"], 0),
        default_cores=_number(section["defaultCores"], 0, most=100),
        request_factor=_number(section["memoryFactor"], 0) or 1,
    )


def _geometries(field: ConfField, factor: int) -> tuple[MigModel, ...]:
    models: list[MigModel] = []
    for each in field.items():
        model = _model(each, factor)
        for name in model.models:
            _warn_of_shadow(each["models"], name, models)
        models.append(model)
    return tuple(models)


def _warn_of_shadow(field: ConfField, name: str, before: list[MigModel]) -> None:
    """Warn of a model that never matches: models match as parts of a card's type, and the first match counts."""
    for number, model in enumerate(before):
        if shadow := next((other for other in model.models if other in name), ""):
            field.warn(f"'{name}' has no effect: its cards match '{shadow}' of knownMigGeometries[{number}] first")
            return


def _model(field: ConfField, factor: int) -> MigModel:
    entry = field.section(("models", "allowedGeometries"))
    names = []
    for each in entry["models"].some_items("a list of models of cards, as parts of their type, at least one"):
        if not isinstance(each.value, str) or not each.value.strip():
            raise each.error("a part of the type of cards, such as A100-SXM4-80GB")
        names.append(each.value.strip())
    geometries = entry["allowedGeometries"]
    groups = tuple(_group(each, factor) for each in geometries.some_items("a list of groups, at least one"))
    _check_unique(geometries, (group.name for group in groups), "each group once")
    return MigModel(tuple(dict.fromkeys(names)), groups)


def _group(field: ConfField, factor: int) -> MigGroup:
    entry = field.section(("group", "geometries"))
    expected = "a name of letters, digits, _ and . for device ids: UUID[group-position]"
    name, geometries = _name(entry["group"], _GROUP, expected), entry["geometries"]
    instances = tuple(_instance(each, factor) for each in geometries.some_items("a list of instances, at least one"))
    total = sum(instance.count for instance in instances)
    if total > MAX_INSTANCES:
        shown = geometries.holding(f"{total} instances in {name}")
        raise shown.error(f"at most {MAX_INSTANCES} instances in a group")
    sizes = Counter(name for name, _ in {(instance.name, instance.memory) for instance in instances})
    for instance, different in sizes.items():
        if different > 1:
            raise geometries.holding(instance).error("one memory for all instances of a name")
    return MigGroup(name, instances)


def _instance(field: ConfField, factor: int) -> MigInstance:
    entry = field.section(("name", "memory", "count"))
    return MigInstance(
        _name(entry["name"], _NAME, "the name of a MIG profile, such as 1g.10gb"),
        entry["memory"].number(factor),
        entry["count"].number(1, MAX_INSTANCES),
    )


# vnpus


def _vnpus(field: ConfField) -> tuple[bool, tuple[VnpuChip, ...]]:
    """Read both forms: a list of chips, or a mapping with the list under ``configs``, and ``hamiVnpuCore``."""
    hami_vnpu_core = False
    if isinstance(field.value, dict):
        section = field.section(("hamiVnpuCore", "configs"))
        hami_vnpu_core, field = section["hamiVnpuCore"].boolean(), section["configs"]
    chips = tuple(_chip(each) for each in field.items())
    _check_unique(field, (chip.word for chip in chips), "each commonWord once")
    return hami_vnpu_core, chips


def _chip(field: ConfField) -> VnpuChip:
    entry = field.section((*_CHIP_KEYS, *_CHIP_PLUGIN_KEYS, "memoryFactor"))
    word = _name(entry["commonWord"], _WORD, "the word by which nodes register the chip, such as Ascend910B3")
    resource = _resource(entry["resourceName"], "")
    if not resource:
        raise entry["resourceName"].error(f"the resource by which pods request {word}")
    if _number(entry["memoryFactor"], 0) > 1:
        raise entry["memoryFactor"].error("1: the memory of chips is requested in MiB")
    allocatable = entry["memoryAllocatable"].number(1)
    chip = VnpuChip(
        name=as_text(entry["chipName"].value) or word,
        word=word,
        resource=resource,
        memory_resource=_resource(entry["resourceMemoryName"], ""),
        core_resource=_resource(entry["resourceCoreName"], f"{resource}-core"),
        memory_allocatable=allocatable,
        memory_capacity=_number(entry["memoryCapacity"], allocatable, least=allocatable),
        ai_cores=entry["aiCore"].number(1),
        ai_cpus=_number(entry["aiCPU"], 0),
    )
    templates = [template for each in entry["templates"].items() if (template := _template(each, chip)) is not None]
    _check_unique(entry["templates"], (template.name for template in templates), "each template once")
    return replace(chip, templates=tuple(sorted(templates, key=lambda template: template.memory)))


def _template(field: ConfField, chip: VnpuChip) -> VnpuTemplate | None:
    """Return a template; None, with a warning, if it exceeds the chip."""
    entry = field.section(("name", "memory", "aiCore", "aiCPU"))
    template = VnpuTemplate(
        _name(entry["name"], _NAME, "the name of a template, such as vir05_1c_16g"),
        entry["memory"].number(1),
        _number(entry["aiCore"], 0),
        _number(entry["aiCPU"], 0),
    )
    for key, asked, has, of_chip in (
        ("memory", template.memory, chip.memory_allocatable, "memoryAllocatable"),
        ("aiCore", template.ai_cores, chip.ai_cores, "aiCore"),
        ("aiCPU", template.ai_cpus, chip.ai_cpus or LARGEST, "aiCPU"),
    ):
        if asked > has:
            entry[key].warn(f"{template.name} is left out: {asked} is more than the {of_chip} of {chip.word}, {has}")
            return None
    return template


# Values


def _number(field: ConfField, default: int, least: int = 0, most: int = LARGEST) -> int:
    """Return a whole number, the default if absent."""
    return default if field.value is None else field.number(least, most)


def _check_scale(field: ConfField) -> None:
    try:
        usable = field.value is None or float(as_text(field.value)) > 0
    except ValueError:
        usable = False
    if not usable:
        raise field.error("a number above 0")


def _name(field: ConfField, form: re.Pattern[str], expected: str) -> str:
    text = as_text(field.value).strip()
    if not form.fullmatch(text):
        raise field.error(expected)
    return text


def _resource(field: ConfField, default: str) -> str:
    """Return the name of a resource, which may be '', the default if absent."""
    if field.value is None:
        return default
    if not isinstance(field.value, str) or (field.value and not _RESOURCE.fullmatch(field.value)):
        raise field.error("the name of an extended resource, such as volcano.sh/vgpu-number")
    return field.value


def _check_unique(field: ConfField, names: Iterable[str], expected: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise field.holding(name).error(f"{expected}: not {times} times")


def _check_resources(
    root: ConfField,
    vgpu: VgpuConf,
    hami: HamiConf | None,
    chips: tuple[VnpuChip, ...],
    declared: list[tuple[str, str]],
) -> None:
    """Check that each resource is named once; ``declared``: resources and their sections, of device families."""
    named = declared + [(name, "nvidia") for name in (vgpu.number, vgpu.memory, vgpu.percentage, vgpu.cores)]
    if hami is not None:
        named += [(name, "hami") for name in (hami.number, hami.memory, hami.percentage, hami.cores, hami.priority)]
    elif vgpu.number == (usual := HamiConf().number):
        text = f"{usual} is a resource of Volcano's vGPU plugin here: for nodes of HAMi name the section hami"
        root["nvidia"].warn(text, "nvidia")
    named += [(name, chip.word) for chip in chips for name in (chip.resource, chip.memory_resource, chip.core_resource)]
    meaning: dict[str, str] = {}
    for name, owner in named:
        if name and name in meaning:
            raise root.holding(name).error(f"each resource once, not in {meaning[name]} and {owner}")
        meaning[name] = owner
