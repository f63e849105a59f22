"""``device-config.yaml`` as values: names of vGPU resources, MIG geometries, Ascend chips.

Source: volcano-sh/volcano pkg/scheduler/api/devices/config, and the ConfigMaps that the device plugins publish. Units:
MiB of device memory.
"""

from typing import TypeVar

import msgspec

from deviceshare.conf.device_sections import DeviceSection

S = TypeVar("S", bound=DeviceSection)

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


class VgpuConf(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Section ``nvidia``: names of resources ('' for none), defaults, geometries."""

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


class HamiConf(VgpuConf, frozen=True, kw_only=True, cache_hash=True):
    """Section ``hami``: the names and defaults of HAMi's scheduler for NVIDIA GPUs.

    ``memory_factor`` is 1, since registered memory is in MiB.
    """

    number: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"
    """The resource by which a container gets a priority on its cards, which HAMi's webhook passes on; '' for none."""
    request_factor: int = 1
    """The unit of requested memory in MiB, HAMi's ``memoryFactor``."""


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


class DevicesConf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file; ``hami_vnpu_core``: HAMi-core shares the Ascend chips of nodes without their own setting."""

    vgpu: VgpuConf = VgpuConf()
    hami: HamiConf = HamiConf()
    chips: tuple[VnpuChip, ...] = ()
    hami_vnpu_core: bool = False
    sections: tuple[DeviceSection, ...] = ()
    """The sections in the file that device families declare."""
    warnings: tuple[str, ...] = ()

    def section(self, kind: type[S]) -> S:
        """Return the section of this kind, with its defaults if the file does not have it."""
        return next((section for section in self.sections if type(section) is kind), None) or kind()


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

BUILT_IN = DevicesConf(chips=(ASCEND_310P,))
"""The configuration without a ConfigMap."""
