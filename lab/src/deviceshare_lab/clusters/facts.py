"""Facts of made clusters, as inventory would decode them: for those who feed the scheduler, or metrics, alone."""

from collections.abc import Mapping
from typing import Any

from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuTemplate
from deviceshare.model import Card, ContainerRequest, PodRequest

ASCEND_910B3 = VnpuChip(
    name="910B3",
    word="Ascend910B3",
    resource="huawei.com/Ascend910B3",
    memory_resource="huawei.com/Ascend910B3-memory",
    memory_allocatable=65536,
    memory_capacity=65536,
    ai_cores=20,
    ai_cpus=7,
    templates=(VnpuTemplate("vir05_1c_16g", 16384, 5, 1), VnpuTemplate("vir10_3c_32g", 32768, 10, 3)),
)
"""As in the ConfigMap of Project-HAMi's ascend-device-plugin."""


def make_cards(
    node: str, count: int, model: str, memory: int, slots: int, cores: int = 100, mode: str = "hami-core"
) -> tuple[Card, ...]:
    """Return the cards ``<node>-<index>`` of a node: MiB, the most pods, and percent or AI cores of each."""
    return tuple(Card(f"{node}-{index}", index, slots, memory, cores, model, mode=mode) for index in range(count))


def make_request(resources: Mapping[str, int], **rest: Any) -> PodRequest:
    """Return the request of a pod of one container; ``rest`` are further fields."""
    return PodRequest(containers=(ContainerRequest("main", tuple(sorted(resources.items()))),), **rest)
