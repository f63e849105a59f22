"""Generated nodes with hami-core cards, and pods of ten sizes that share the cards."""

from collections.abc import Iterator
from typing import NamedTuple

from deviceshare_cluster.interface import Object

from deviceshare_lab.bench.allocator.forms import CardKind, Vgpu
from deviceshare_lab.clusters import objects

CARDS = CardKind("NVIDIA-Tesla V100-PCIE-32GB", memory=32_768, slots=10, cores=100)
CONF = objects.conf({"VGPUEnable": "true", "SchedulePolicy": "binpack", "ScheduleWeight": 10})


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
    for number in range(count):
        ids = [f"GPU-{number:05d}-{card}" for card in range(cards)]
        published = Vgpu("hami-core").node(CARDS, ids)
        resources = {"cpu": "96", "memory": "768Gi", "pods": "1000", **published.resources}
        yield objects.node(f"node-{number:05d}", resources, published.annotations)


def pods(count: int, queues: int = 0) -> Iterator[Object]:
    """Yield pods of all sizes in turn, in so many queues in turn, 0: in the default queue."""
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
        # Not in turn as the sizes: each queue gets all of them.
        queue = f"bench-{number // len(SIZES) % queues}" if queues else ""
        yield objects.pod(f"bench-{number:06d}", limits, namespace="bench", queue=queue)
