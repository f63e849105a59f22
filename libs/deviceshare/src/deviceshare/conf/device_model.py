"""``device-config.yaml`` as values: how vGPU resources are called, how MIG cards can be cut, which Ascend chips there
are.

Source: volcano-sh/volcano pkg/scheduler/api/devices/config, and the ConfigMaps that the device plugins publish. Units:
MiB of device memory.
"""

import msgspec

MOST_INSTANCES = 62
"""Instances that a group of a MIG geometry may have in all: which of them are taken is one 64-bit number a card."""


class MigInstance(msgspec.Struct, frozen=True):
    """A kind of MIG instance in a group: ``count`` of them, ``memory`` MiB each, as the file says it."""

    name: str
    memory: int
    count: int


class MigGroup(msgspec.Struct, frozen=True):
    """One way of cutting a whole card. Positions count over all instances in the file's order."""

    name: str
    instances: tuple[MigInstance, ...]


class MigModel(msgspec.Struct, frozen=True):
    """The groups that cards of these models can be cut into, in the file's order. Models match as parts of a type."""

    models: tuple[str, ...]
    groups: tuple[MigGroup, ...]


class VgpuConf(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Section ``nvidia``: names of resources ('' for one that there is not), defaults, geometries."""

    number: str = "volcano.sh/vgpu-number"
    memory: str = "volcano.sh/vgpu-memory"
    percentage: str = "volcano.sh/vgpu-memory-percentage"
    cores: str = "volcano.sh/vgpu-cores"
    default_number: int = 1
    default_memory: int = 0
    """MiB where a container asks none; 0: all that a card has."""
    default_cores: int = 0
    memory_factor: int = 1
    """Requests and registered memory count in units of so many MiB; instances are divided by it, rounded down."""
    geometries: tuple[MigModel, ...] = ()


class VnpuTemplate(msgspec.Struct, frozen=True):
    """A part of an Ascend chip: MiB, AI cores, AI CPUs."""

    name: str
    memory: int
    ai_cores: int
    ai_cpus: int = 0


class VnpuChip(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One chip of section ``vnpus``; ``word`` is its common word, by which the nodes register it."""

    name: str
    word: str
    resource: str
    memory_resource: str
    core_resource: str = ""
    """Asked by pods that share a chip by HAMi-core; '' for a chip of which no cores can be asked."""
    memory_allocatable: int
    memory_capacity: int
    ai_cores: int
    ai_cpus: int = 0
    templates: tuple[VnpuTemplate, ...] = ()
    """By memory, the smallest first."""


class DevicesConf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file; ``hami_vnpu_core`` cuts Ascend chips by HAMi-core where a node does not say otherwise."""

    vgpu: VgpuConf = VgpuConf()
    chips: tuple[VnpuChip, ...] = ()
    hami_vnpu_core: bool = False
    warnings: tuple[str, ...] = ()


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
"""What holds where there is no ConfigMap."""
