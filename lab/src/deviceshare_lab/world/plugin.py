"""What the device plugins have in common: kubelet requests a number of devices, and the plugin infers the pod."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters.fields import annotations_of as annotations

VGPU_NODE = "volcano.sh/vgpu-node"

SERVED = str(2**64 - 1)
Environment = dict[str, str]


class Given(NamedTuple):
    """What a plugin gives to kubelet: whom it means (the pod's uid, the container's name), and the environment."""

    uid: str
    container: str
    environment: Environment


MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
VGPU = "volcano.sh/vgpu-number"
ASCEND = re.compile(r"huawei\.com/(Ascend(?:910A|910B\d(?:-1)?|310P))")
CORES = "huawei.com/npu-core"


class Failed(Exception):
    """The plugin does not serve; ``wanted`` where a test asked for it."""

    def __init__(self, message: str, *, wanted: bool = False) -> None:
        super().__init__(message)
        self.wanted = wanted


def amount(container: Object, resource: str) -> int:
    """Return how many of a resource a container's limits ask for; the API server shortens them (``320k``)."""
    text = str((container.get("resources", {}).get("limits") or {}).get(resource, 0))
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)


def asked(pod: Object, resource: str) -> int:
    """Return what a pod takes of a resource at most: the larger of its largest init container and all that run."""
    running = [amount(one, resource) for one in pod["spec"]["containers"]]
    largest = 0
    for one in pod["spec"].get("initContainers", ()):
        if one.get("restartPolicy") == "Always":
            running.append(amount(one, resource))
        else:
            largest = max(largest, amount(one, resource))
    return max(sum(running), largest)


def time_of(pod: Object, key: str) -> int:
    """Return a time that stands on a pod, the latest of all where none does."""
    text = annotations(pod).get(key, "")
    return int(text) if text.isdecimal() else int(SERVED)


def holds_lock(node: Object, lock: str, holder: str) -> bool:
    """Whether a lock stands on a node that a plugin may remove for a pod, ``namespace/name``, or '' for any."""
    value = annotations(node).get(lock)
    if value is None or not holder or "," not in value:
        return value is not None
    return value.partition(",")[2].replace(",", "/") == holder


class PodCache(Protocol):
    """What the plugins of all nodes know of the cluster, and what they write."""

    @property
    def nodes(self) -> Mapping[str, Object]:
        """The nodes by name."""

    def of(self, node: str) -> Sequence[Object]:
        """Return the pods that are bound to a node, or whose annotation says that it is theirs."""

    async def read_node(self, node: str) -> Object | None:
        """Return a node as the API server has it."""

    async def annotate(self, pod: Object, written: dict[str, str], account: str) -> None:
        """Write annotations of a pod as the service account of a device plugin."""

    async def unlock(self, node: str, lock: str, holder: str = "") -> None:
        """Remove a lock from a node, where it stands there and, if it names a pod, names this one."""


class Plugin:
    """One kind of plugin, on all nodes; ``fails`` says whether it is to fail now."""

    ACCOUNT = "volcano-device-plugin"
    """Its service account, by its makers' manifests."""

    def __init__(self, cache: PodCache, fails: Callable[[], bool]) -> None:
        self.cache = cache
        self.fails = fails

    def offers(self, resource: str) -> bool:
        """Whether the plugin puts a resource into the node's status, where it runs."""
        raise NotImplementedError

    def serves(self, node: str, resource: str) -> bool:
        """Whether the plugin of a node registers a resource with kubelet: kubelet calls no plugin for others."""
        return self.offers(resource)

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        """Serve some pod with so many devices."""
        raise NotImplementedError

    async def _annotate(self, pod: Object, written: dict[str, str]) -> None:
        await self.cache.annotate(pod, written, self.ACCOUNT)
