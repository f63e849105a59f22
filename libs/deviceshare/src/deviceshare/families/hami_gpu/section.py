"""Section ``hami`` of ``device-config.yaml``: HAMi's names of the resources of NVIDIA GPUs, and its defaults.

Source: Project-HAMi/HAMi (pkg/device/nvidia).
"""

from collections.abc import Iterable
from typing import ClassVar, Self

from deviceshare.conf import ConfField
from deviceshare.families.vgpu.section import PLUGIN_SCALES, PLUGIN_SWITCHES, VGPU_KEYS, VgpuConf, names_and_defaults

HAMI_KEYS = (*(key for key in VGPU_KEYS if key not in ("gpuMemoryFactor", "knownMigGeometries")), "memoryFactor",
              "resourcePriorityName")  # fmt: skip
_HAMI_PLUGIN_KEYS = (
    *PLUGIN_SWITCHES, *PLUGIN_SCALES, "deviceSplitCount", "migstrategy", "preConfiguredDeviceMemory",
    "enableNumaTopology", "gpuCorePolicy", "libCudaLogLevel", "runtimeClassName", "migProfileAllowlist",
    "knownMigGeometries",
)  # fmt: skip
"""Keys of HAMi's section ``nvidia`` that only its device plugin and its webhook read."""


class HamiConf(VgpuConf, frozen=True, kw_only=True, cache_hash=True):
    """Section ``hami``: the names and defaults of HAMi's scheduler for NVIDIA GPUs.

    ``memory_factor`` is 1, since registered memory is in MiB.
    """

    key: ClassVar[str] = "hami"
    product: ClassVar[str] = "HAMi"
    gives_way: ClassVar[bool] = True

    number: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"
    """The resource by which a container gets a priority on its cards, which HAMi's webhook passes on; '' for none."""
    request_factor: int = 1
    """The unit of requested memory in MiB, HAMi's ``memoryFactor``."""

    @classmethod
    def read(cls, field: ConfField) -> Self:
        """Read the section ``nvidia`` of the device-config.yaml of HAMi, under the name ``hami``."""
        section, usual = field.section((*HAMI_KEYS, *_HAMI_PLUGIN_KEYS)), cls()
        return cls(
            percentage=section["resourceMemoryPercentageName"].resource(usual.percentage),
            priority=section["resourcePriorityName"].resource(usual.priority),
            request_factor=section["memoryFactor"].number(default=0) or 1,
            **names_and_defaults(section, usual),
        )

    def resources(self) -> Iterable[tuple[str, str]]:
        """Return the resources of cards, their memory, their cores and the priority."""
        return (*super().resources(), (self.priority, self.key))
