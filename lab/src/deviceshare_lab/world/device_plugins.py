"""The device plugins, based on their sources: :mod:`.plugin` says what they have in common."""

import json
import re
from collections.abc import Callable, Container

from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters.fields import annotations_of as annotations
from deviceshare_lab.clusters.fields import has_ended
from deviceshare_lab.clusters.fields import name_of as name
from deviceshare_lab.world.plugin import (
    ASCEND,
    CORES,
    MEMORY,
    NUMBER,
    SERVED,
    VGPU,
    VGPU_NODE,
    Environment,
    Failed,
    Given,
    Plugin,
    PodCache,
    amount,
    time_of,
)


class Vgpu(Plugin):
    """Project-HAMi/volcano-vgpu-device-plugin, pkg/plugin/server.go (Allocate) and pkg/util/util.go."""

    TO_ALLOCATE, TIME, PHASE = "volcano.sh/devices-to-allocate", "volcano.sh/vgpu-time", "volcano.sh/bind-phase"
    LOCK = "hamivgpu"

    def __init__(self, cache: PodCache, fails: Callable[[], bool]) -> None:
        super().__init__(cache, fails)
        self._groups: dict[str, str] = {}
        """How MIG cards were cut last."""

    def offers(self, resource: str) -> bool:
        """``vgpu-memory`` and ``vgpu-cores`` are answered with nothing."""
        return resource == VGPU

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        """Take the pod with the smallest time of those with as many devices left, whatever its phase."""
        candidates = [pod for pod in self.cache.of(node) if annotations(pod).get(VGPU_NODE) == node]
        candidates = [pod for pod in candidates if sum(len(one) for one in self._left(pod)) == count]
        if not candidates:
            raise Failed("cannot get valid pod")
        pod = min(candidates, key=lambda one: time_of(one, self.TIME))
        if self.fails():  # as where its answer cannot be made: the phase stays
            raise Failed("failed to get allocate response", wanted=True)
        slots = self._left(pod)
        position = next((number for number, slot in enumerate(slots) if slot), -1)
        if self.fails() or len(slots[position]) != count:
            wanted = len(slots[position]) == count
            await self._annotate(pod, {self.PHASE: "failed", self.TIME: SERVED})
            await self.cache.unlock(node, self.LOCK)
            raise Failed("device number not matched", wanted=wanted)
        devices, slots[position] = slots[position], []
        environment = self._environment(node, pod, devices)
        text = ";".join("".join(f"{device}:" for device in slot) for slot in slots)
        await self._annotate(pod, {self.TO_ALLOCATE: text})
        if "GPU" not in text:
            await self._annotate(pod, {self.PHASE: "success", self.TIME: SERVED})
            await self.cache.unlock(node, self.LOCK)
        return Given(pod["metadata"]["uid"], pod["spec"]["containers"][position]["name"], environment)

    def _left(self, pod: Object) -> list[list[str]]:
        slots = annotations(pod).get(self.TO_ALLOCATE, "").split(";")
        return [[device for device in slot.split(":") if "," in device] for slot in slots]

    def _environment(self, node: str, pod: Object, devices: list[str]) -> Environment:
        parts = [device.split(",") for device in devices]
        register = annotations(self.cache.nodes[node])["volcano.sh/node-vgpu-register"]
        cards = {item.split(",")[0]: item.split(",")[5] for item in register.split(":") if item}
        if unknown := [uuid for uuid, *_ in parts if uuid.partition("[")[0] not in cards]:
            raise Failed(f"{unknown} of {name(pod)} are not on {node}")
        if parts[0][0].endswith("]"):
            visible = [self._instance(node, pod, uuid) for uuid, *_ in parts]
            return {"NVIDIA_VISIBLE_DEVICES": ",".join(visible)}
        limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{mem}m" for number, (_, _, mem, _) in enumerate(parts)}
        visible = [uuid for uuid, *_ in parts]
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(visible), "CUDA_DEVICE_SM_LIMIT": parts[0][3], **limits}

    def _instance(self, node: str, pod: Object, device: str) -> str:
        """Return the instance's UUID; a card with another geometry is repartitioned, even if it is in use."""
        card, _, instance = device.rstrip("]").partition("[")
        group, _, position = instance.rpartition("-")
        if self._groups.get(card) != group:
            for other in self.cache.of(node):
                held = annotations(other).get("volcano.sh/vgpu-ids-new", "")
                if f"{card}[" in held and f"{card}[{group}-" not in held and not has_ended(other):
                    raise Failed(f"{card} would be cut anew for {name(pod)} while {name(other)} uses it: {held}")
            self._groups[card] = group
        return f"MIG-{card}-{group}-{position}"


class Gpu(Plugin):
    """volcano-sh/devices, pkg/plugin/nvidia/server.go (Allocate), in both of its strategies."""

    ASSIGNED, TIME, INDEX = "volcano.sh/gpu-assigned", "volcano.sh/predicate-time", "volcano.sh/gpu-index"
    LOCK = "gpu"

    def offers(self, resource: str) -> bool:
        """Cards, or parts of their memory; the number of cards stands in the node's status in both strategies."""
        return resource in (MEMORY, NUMBER)

    def serves(self, node: str, resource: str) -> bool:
        """The resource of its strategy alone."""
        capacity = {"resources": {"limits": self.cache.nodes[node]["status"]["capacity"]}}
        return resource == (MEMORY if amount(capacity, MEMORY) else NUMBER)

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        """Take the oldest pending pod that is not marked and has a container that asks as much; mark the pod."""
        try:
            given = await self._serve(node, resource, count)
        finally:
            await self.cache.unlock(node, self.LOCK)
        return given

    async def _serve(self, node: str, resource: str, count: int) -> Given:
        candidates = [
            pod
            for pod in self.cache.of(node)
            if pod["spec"].get("nodeName") == node
            and pod["status"]["phase"] == "Pending"
            and annotations(pod).get(self.ASSIGNED, "false") == "false"
            and "deletionTimestamp" not in pod["metadata"]
            and self._asking(pod, resource, count)
        ]
        if not candidates:
            raise Failed("failed to find candidate pod")
        pod = min(candidates, key=lambda one: time_of(one, self.TIME))
        if self.fails():
            raise Failed("failed to find gpu device", wanted=True)
        capacity = self.cache.nodes[node]["status"]["capacity"]
        number = int(capacity[NUMBER])
        ids = [int(text) for text in annotations(pod).get(self.INDEX, "-1").split(",")]
        if any(index not in range(number) for index in ids):
            raise Failed(f"failed to find gpu device: {ids} of {name(pod)}")
        total = amount({"resources": {"limits": capacity}}, MEMORY) // number
        await self._annotate(pod, {self.ASSIGNED: "true"})
        environment = {
            "NVIDIA_VISIBLE_DEVICES": ",".join(map(str, ids)),
            "VOLCANO_GPU_ALLOCATED": str(count),
            "VOLCANO_GPU_MEMORY_TOTAL": str(total),
        }
        return Given(pod["metadata"]["uid"], self._asking(pod, resource, count), environment)

    def _asking(self, pod: Object, resource: str, count: int) -> str:
        """Return the first of ``spec.containers`` that asks as much, '' where none does."""
        asking = (one["name"] for one in pod["spec"]["containers"] if amount(one, resource) == count)
        return next(asking, "")


class HamiAscend(Plugin):
    """Project-HAMi/ascend-device-plugin, internal/server, and HAMi's pkg/util (GetPendingPod) and nodelock."""

    ACCOUNT = "hami-ascend"
    LOCK, PHASE = "hami.io/mutex.lock", "hami.io/bind-phase"

    def offers(self, resource: str) -> bool:
        """Chips by their models."""
        return ASCEND.fullmatch(resource) is not None

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        """Take the pod that the lock names, else the first by name that is allocating or was served and is pending."""
        pod = await self._pending(node)
        try:
            if self.fails():
                raise Failed("build container allocate response", wanted=True)
            return await self._serve(node, resource, pod, count)
        except Failed:
            await self._end(node, pod, "failed")
            raise

    async def _pending(self, node: str) -> Object:
        found = await self.cache.read_node(node)
        assert found is not None
        _, _, holder = annotations(found).get(self.LOCK, "").partition(",")
        for pod in sorted(self.cache.of(node), key=name):
            if holder:
                if name(pod) == holder.replace(",", "/"):
                    return pod
            elif (
                pod["spec"].get("nodeName") == node
                and pod["status"]["phase"] == "Pending"
                and "hami.io/bind-time" in annotations(pod)
                and annotations(pod).get(self.PHASE) in ("allocating", "success")
                and annotations(pod).get("hami.io/vgpu-node") == node
            ):
                return pod
        raise Failed(f"no binding pod found on node {node}, lock {holder!r}")

    async def _serve(self, node: str, resource: str, pod: Object, count: int) -> Given:
        """Hand out the first slot that is left; the lock goes at once, whatever is left after it."""
        match = ASCEND.fullmatch(resource)
        assert match is not None
        word = match[1]
        key = f"hami.io/{word}-devices-to-allocate"
        if key not in annotations(pod) or f"huawei.com/{word}" not in annotations(pod):
            raise Failed(f"device {word} not found in pod annotations of {name(pod)}")
        registered = json.loads(annotations(self.cache.nodes[node])[f"hami.io/node-register-{word}"])
        indexes = {one["id"]: one.get("index", 0) for one in registered}
        slots, position, devices = self._slot(pod, key, count, indexes)
        how = {one["UUID"]: one for one in json.loads(annotations(pod)[f"huawei.com/{word}"])}
        await self._annotate(pod, {key: ";".join(slots)})
        await self._end(node, pod, "success")
        visible = ",".join(str(indexes[device]) for device, *_ in devices)
        templates = [how[device]["temp"] for device, *_ in devices if how.get(device, {}).get("temp")]
        environment = {"ASCEND_VISIBLE_DEVICES": visible} | ({"ASCEND_VNPU_SPECS": templates[0]} if templates else {})
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        return Given(pod["metadata"]["uid"], containers[position]["name"], environment)

    def _slot(self, pod: Object, key: str, count: int, known: Container[str]) -> tuple[list[str], int, list[list[str]]]:
        """Return the slots of an annotation without the first that is left, its position, and its devices."""
        slots = annotations(pod).get(key, "").split(";")
        position = next((number for number, slot in enumerate(slots) if "," in slot), -1)
        devices = [device.split(",") for device in slots[position].split(":") if "," in device]
        if position < 0 or len(devices) != count:
            raise Failed(f"device number not matched: {name(pod)} has {devices}, request has {count}")
        if unknown := [device for device, *_ in devices if device not in known]:
            raise Failed(f"unknown uuid: {unknown} of {name(pod)}")
        slots[position] = ""
        return slots, position, devices

    async def _end(self, node: str, pod: Object, phase: str) -> None:
        await self._annotate(pod, {self.PHASE: phase})
        await self.cache.unlock(node, self.LOCK, name(pod))


class HamiNvidia(HamiAscend):
    """Project-HAMi/HAMi 2.9, pkg/device-plugin/nvidiadevice (Allocate, popNextContainerDevices)."""

    ACCOUNT = "hami-device-plugin"
    REGISTER, TO_ALLOCATE = "hami.io/node-nvidia-register", "hami.io/vgpu-devices-to-allocate"

    def offers(self, resource: str) -> bool:
        """NVIDIA's own plugin offers the resource on other nodes."""
        return False

    def serves(self, node: str, resource: str) -> bool:
        """Whether the plugin registers the node."""
        return resource == "nvidia.com/gpu" and self.REGISTER in annotations(self.cache.nodes[node])

    async def _serve(self, node: str, resource: str, pod: Object, count: int) -> Given:
        """Hand out the first slot that is left; the lock goes when nothing is left."""
        registered = {one["id"] for one in json.loads(annotations(self.cache.nodes[node])[self.REGISTER])}
        slots, position, devices = self._slot(pod, self.TO_ALLOCATE, count, registered)
        await self._annotate(pod, {self.TO_ALLOCATE: ";".join(slots)})
        if not any("," in slot for slot in slots):
            await self._end(node, pod, "success")
        mains, every = pod["spec"]["containers"], [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        # The last slot ends with a separator.
        served = (every if len(slots) - 1 == len(every) else mains)[position]
        environment = {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{device[2]}m" for at, device in enumerate(devices)}
        environment |= {"CUDA_DEVICE_SM_LIMIT": devices[0][3]}
        environment |= {"NVIDIA_VISIBLE_DEVICES": ",".join(device for device, *_ in devices)}
        return Given(pod["metadata"]["uid"], served["name"], environment)


class MindCluster(Plugin):
    """Ascend/mind-cluster, component/ascend-device-plugin, pkg/server/plugin.go (doWithVolcanoSchedule)."""

    ACCOUNT = "ascend-device-plugin-sa"
    TIME, REAL = "predicate-time", "huawei.com/AscendReal"
    CHIP = 8

    def __init__(self, cache: PodCache, fails: Callable[[], bool]) -> None:
        super().__init__(cache, fails)
        self._made = 99

    def offers(self, resource: str) -> bool:
        """AI cores."""
        return resource == CORES

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        """Take the oldest pod that lives and was given as many AI cores, and make it the youngest."""
        candidates = [
            pod
            for pod in self.cache.of(node)
            if pod["spec"].get("nodeName") == node
            and not has_ended(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and annotations(pod).get(self.TIME) != SERVED
            and self._cores(pod) == count
        ]
        if not candidates:
            raise Failed("not get valid pod")
        pod = min(candidates, key=lambda one: time_of(one, self.TIME))
        await self._annotate(pod, {self.TIME: SERVED})
        if self.fails():
            raise Failed("create virtual device", wanted=True)
        asking = next((one["name"] for one in pod["spec"]["containers"] if amount(one, CORES) == count), "")
        chips, _, template = annotations(pod)[CORES].partition("-")
        if not template:
            real = ",".join(f"Ascend310P-{chip}" for chip in chips.split(","))
            await self._annotate(pod, {self.REAL: real})
            return Given(pod["metadata"]["uid"], asking, {"ASCEND_VISIBLE_DEVICES": chips})
        self._made += 1
        cpus = match[1] if (match := re.search(r"_(\d)c", template)) else template[4:5]
        group = self._group(node, chips)
        real = f"Ascend310P-{count}c.{cpus}cpu-{self._made}-{chips}_{group}"
        await self._annotate(pod, {self.REAL: real})
        environment = {"ASCEND_VISIBLE_DEVICES": str(self._made), "ASCEND_RUNTIME_OPTIONS": "VIRTUAL"}
        return Given(pod["metadata"]["uid"], asking, environment)

    def _cores(self, pod: Object) -> int:
        given = annotations(pod).get(CORES, "")
        if not given or not any(amount(one, CORES) for one in pod["spec"]["containers"]):
            return 0
        chips, _, template = given.partition("-")
        return int(template[3:5]) if template else self.CHIP * len(chips.split(","))

    def _group(self, node: str, chip: str) -> int:
        """Return the first of the chip's four groups, of two AI cores each, with the most room left."""
        used = [0] * 4
        for pod in self.cache.of(node):
            for real in annotations(pod).get(self.REAL, "").split(","):
                match = re.fullmatch(r"Ascend310P-(\d+)c\.\d+cpu-\d+-(\d+)_(\d)", real)
                if match and match[2] == chip and not has_ended(pod):
                    first = int(match[3])
                    for group in range(first, first + max(1, int(match[1]) // 2)):
                        used[group % 4] += 1
        return used.index(min(used))


PLUGINS: tuple[type[Plugin], ...] = (Vgpu, Gpu, HamiAscend, HamiNvidia, MindCluster)
"""All kinds."""
