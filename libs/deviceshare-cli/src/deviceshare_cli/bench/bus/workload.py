"""Generated nodes with hami-core cards, and pods of ten sizes that share the cards."""

from collections.abc import Iterator
from typing import NamedTuple

from deviceshare_cluster.interface import Object

CARD_MEMORY = 32_768
CARD_SHARES = 10
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
"""


class PodSize(NamedTuple):
    """The request of a pod: number of cards, MiB and percent of each."""

    cards: int
    memory: int
    cores: int


SIZES = (
    PodSize(1, 1024, 5),
    PodSize(1, 2048, 10),
    PodSize(1, 3000, 10),
    PodSize(1, 4096, 15),
    PodSize(1, 8192, 25),
    PodSize(1, 16384, 50),
    PodSize(2, 1024, 5),
    PodSize(2, 4096, 15),
    PodSize(1, 10240, 0),
    PodSize(4, 2048, 10),
)


def nodes(count: int, cards: int) -> Iterator[Object]:
    """Yield nodes with the register annotation of the vGPU device plugin, and room for more pods than their cards."""
    allocatable = {
        "cpu": "96",
        "memory": "768Gi",
        "pods": "1000",
        "volcano.sh/vgpu-number": str(cards * CARD_SHARES),
        "volcano.sh/vgpu-memory": str(cards * CARD_MEMORY),
        "volcano.sh/vgpu-cores": str(cards * 100),
    }
    for number in range(count):
        name = f"node-{number:05d}"
        register = "".join(
            f"GPU-{number:05d}-{card},{CARD_SHARES},{CARD_MEMORY},NVIDIA-Tesla V100-PCIE-32GB,true,hami-core:"
            for card in range(cards)
        )
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {"volcano.sh/node-vgpu-register": register}},
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def pods(count: int) -> Iterator[Object]:
    """Yield pods of all sizes in turn."""
    for number in range(count):
        size = SIZES[number % len(SIZES)]
        limits = {
            "cpu": "100m",
            "memory": "256Mi",
            "volcano.sh/vgpu-number": str(size.cards),
            "volcano.sh/vgpu-memory": str(size.memory),
        }
        if size.cores:
            limits["volcano.sh/vgpu-cores"] = str(size.cores)
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"bench-{number:06d}", "namespace": "bench"},
            "spec": {
                "schedulerName": "deviceshare",
                "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
            },
        }
