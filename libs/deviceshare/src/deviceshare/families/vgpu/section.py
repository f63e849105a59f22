"""Section ``nvidia`` of ``device-config.yaml``: names of vGPU resources, defaults, MIG geometries.

Beyond Volcano: the default names apply if one is missing. Units: MiB of device memory. Sources: volcano-sh/volcano
(pkg/scheduler/api/devices/config), Project-HAMi/volcano-vgpu-device-plugin (pkg/config).
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import msgspec

from deviceshare.conf import ConfField, DeviceSection
from deviceshare.model import as_text

VGPU_KEYS = (
    "resourceCountName", "resourceMemoryName", "resourceMemoryPercentageName", "resourceCoreName", "defaultMemory",
    "defaultCores", "defaultGPUNum", "gpuMemoryFactor", "knownMigGeometries",
)  # fmt: skip
PLUGIN_SWITCHES = ("overwriteEnv", "disableCoreLimit", "passDeviceSpecs")
PLUGIN_SCALES = ("deviceMemoryScaling", "deviceCoreScaling")
PLUGIN_KEYS = (*PLUGIN_SWITCHES, *PLUGIN_SCALES, "deviceSplitCount", "resourcePriorityName", "migstrategy")
"""Keys that only the device plugin and its webhook read; the plugin registers cards accordingly."""

_GROUP = re.compile(r"[A-Za-z0-9_.]+")
_PROFILE = re.compile(r"[^\s,:;\[\]]+")

MAX_INSTANCES = 62
"""The most instances of a group of a MIG geometry: a 64-bit number per card records which instances are in use."""


class MigInstance(msgspec.Struct, frozen=True):
    """A kind of MIG instance in a group: ``count`` instances of ``memory`` MiB each, as in the file."""

    name: str
    memory: int
    count: int


class MigGroup(msgspec.Struct, frozen=True):
    """One partitioning of a whole card. Positions count over all instances in the file's order."""

    name: str
    instances: tuple[MigInstance, ...]


class MigModel(msgspec.Struct, frozen=True):
    """The groups that cards of these models can be partitioned into, in the file's order.

    A model matches card types that contain it.
    """

    models: tuple[str, ...]
    groups: tuple[MigGroup, ...]


class VgpuConf(DeviceSection, frozen=True, kw_only=True, cache_hash=True):
    """Section ``nvidia``: names of resources ('' for none), defaults, geometries."""

    key: ClassVar[str] = "nvidia"
    product: ClassVar[str] = "Volcano's vGPU plugin"

    number: str = "volcano.sh/vgpu-number"
    memory: str = "volcano.sh/vgpu-memory"
    percentage: str = "volcano.sh/vgpu-memory-percentage"
    cores: str = "volcano.sh/vgpu-cores"
    default_number: int = 1
    default_memory: int = 0
    """MiB if a container requests none; 0: the whole card."""
    default_cores: int = 0
    memory_factor: int = 1
    """The unit of requested and registered memory in MiB; the memory of instances is divided by it, rounded down."""
    geometries: tuple[MigModel, ...] = ()

    @classmethod
    def read(cls, field: ConfField) -> Self:
        """Read the section. A percentage can be requested only if the section names its resource."""
        section = field.section((*VGPU_KEYS, *PLUGIN_KEYS))
        for key in PLUGIN_SWITCHES:
            section[key].boolean()
        for key in PLUGIN_SCALES:
            _check_scale(section[key])
        section["deviceSplitCount"].number(default=0)
        factor = section["gpuMemoryFactor"].number(default=1) or 1
        return cls(
            percentage=section["resourceMemoryPercentageName"].resource(""),
            memory_factor=factor,
            geometries=_geometries(section["knownMigGeometries"], factor),
            **names_and_defaults(section, cls()),
        )

    def resources(self) -> Iterable[tuple[str, str]]:
        """Return the resources of cards, their memory and their cores."""
        return ((name, self.key) for name in (self.number, self.memory, self.percentage, self.cores))


def names_and_defaults(section: ConfField, usual: VgpuConf) -> dict[str, Any]:
    """Return the fields of a :class:`VgpuConf` that Volcano's file and that of HAMi have in common."""
    return {
        "number": section["resourceCountName"].resource(usual.number) or usual.number,
        "memory": section["resourceMemoryName"].resource(usual.memory),
        "cores": section["resourceCoreName"].resource(usual.cores),
        # The device plugin's guide: 0 has no effect.
        "default_number": section["defaultGPUNum"].number(default=1) or 1,
        "default_memory": section["defaultMemory"].number(default=0),
        "default_cores": section["defaultCores"].number(most=100, default=0),
    }


def _check_scale(field: ConfField) -> None:
    try:
        usable = field.value is None or float(as_text(field.value)) > 0
    except ValueError:
        usable = False
    if not usable:
        raise field.error("a number above 0")


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
    geometries.check_unique((group.name for group in groups), "each group once")
    return MigModel(tuple(dict.fromkeys(names)), groups)


def _group(field: ConfField, factor: int) -> MigGroup:
    entry = field.section(("group", "geometries"))
    expected = "a name of letters, digits, _ and . for device ids: UUID[group-position]"
    name, geometries = entry["group"].matching(_GROUP, expected), entry["geometries"]
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
        entry["name"].matching(_PROFILE, "the name of a MIG profile, such as 1g.10gb"),
        entry["memory"].number(factor),
        entry["count"].number(1, MAX_INSTANCES),
    )
