"""Nodes, requests and annotations of Ascend vNPUs in HAMi's format."""

from pathlib import Path

from deviceshare.allocation import Allocator
from deviceshare.conf import parse_devices
from deviceshare.families import BY_NAME
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf, VnpuTemplate
from deviceshare.model import Card, NodeFact, PodRequest
from support.builders import ask, claim_of, cluster, container, node

FAMILY = BY_NAME["hami-vnpu"]
PUBLISHED = parse_devices(
    (Path(__file__).parents[2] / "examples" / "configmaps" / "hami-scheduler-device.yaml").read_text(), "published"
)
SMALL = VnpuChip(
    name="small", word="Ascend910X", resource="huawei.com/Ascend910X", memory_resource="huawei.com/Ascend910X-memory",
    core_resource="huawei.com/Ascend910X-core", memory_allocatable=100, memory_capacity=110, ai_cores=20, ai_cpus=7,
    templates=(VnpuTemplate("half-cores", 10, 10, 1), VnpuTemplate("many-cpus", 20, 1, 3)),
)  # fmt: skip
"""A chip whose AI cores and AI CPUs run out before its memory."""
DEVICES = PUBLISHED.having(VnpuConf(chips=(*PUBLISHED.section(VnpuConf).chips, SMALL)))
SHARED = {"huawei.com/vnpu-mode": "hami-core"}
B3, P310 = "Ascend910B3", "Ascend310P"
SIZES = {chip.word: chip.memory_allocatable for chip in DEVICES.section(VnpuConf).chips}


def chips(
    count: int = 1, word: str = P310, *, slots: int = 10, healthy: bool = True, mode: str = "vnpu",
    networks: tuple[int, ...] = (), of: str = "",
) -> list[Card]:  # fmt: skip
    """Return the chips of a node, with a network id for each of the first ones."""
    cores = 100 if mode == "vnpu-hami-core" else 20
    return [
        Card(f"{of}D{at}", at, slots, SIZES[word], cores, word, healthy, mode, network)
        for at, network in zip(range(count), (*networks, *[-1] * count), strict=False)
    ]


def npu_node(cards: list[Card], name: str = "n1", offered: int | None = None) -> NodeFact:
    """Return a node with chips, for which kubelet offers ``offered`` devices (all slots by default)."""
    total = sum(card.slots for card in cards) if offered is None else offered
    return node(name, cards, **{f"huawei.com/{word}": total for word in {card.type for card in cards}})


def allocator(*nodes: NodeFact, policy: str = "", **rest: object) -> Allocator:
    """Return an allocator of nodes under a configuration with the published chips and SMALL."""
    return cluster(*nodes, policy=policy, devices=DEVICES, **rest)


def limits(
    number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310
) -> dict[str, int]:
    """Return the limits of a container: number of chips, memory (MiB) and cores (percent)."""
    amounts = {"": number, "-memory": memory, "-core": cores}
    return {f"huawei.com/{word}{end}": amount for end, amount in amounts.items() if amount is not None}


def npu(
    number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310,
    *, annotations: dict[str, str] | None = None, containers: int = 1,
) -> PodRequest:  # fmt: skip
    """Return a request of containers with equal limits."""
    asked = limits(number, memory, cores, word)
    return ask(*(container(f"c{at}", **asked) for at in range(containers)), annotations=annotations)


def shared(number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310) -> PodRequest:
    """Return a request for shares of chips in the hami-core mode."""
    return npu(number, memory, cores, word, annotations=SHARED)


def written(placement, what: PodRequest) -> dict[str, str]:
    """Return the annotations that are written for a placement."""
    names, inits = ([each.name for each in part] for part in (what.containers, what.init_containers))
    return FAMILY.annotations(claim_of(placement), placement.node, names, 1700000000.9, inits)


def cuts(placement) -> list[tuple[str, str, int]]:
    """Return the container, the partition and the charged memory (MiB) of each device."""
    return [(grant.container, device.detail, device.memory) for grant in placement.grants for device in grant.devices]
