"""Real device plugins as processes on a real node, on stand-ins for hardware, and what containers have from them.

``tests/node/plugins/build.sh`` builds them. They run with the accounts, roles and ConfigMaps of their own manifests.
"""

import json
import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml
from support.node import CACHE, NAME, Object, RealNode, do
from support.node_chart import CARDS

PLUGINS = CACHE / "plugins"
HOOKS = Path("/run/vgpu")
"""Where a DaemonSet puts HAMi-core's library on the node."""
PLUGIN_ACCOUNT, ASCEND_ACCOUNT = "volcano-device-plugin", "hami-ascend"
GEOMETRIES = "volcano-vgpu-device-config"
_SOURCES = Path(__file__).parents[1] / "node" / "plugins"
_ASCEND_FILES = (
    "/usr/local/bin/npu-smi",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/driver/lib64/driver/libdcmi.so",
    "/etc/ascend_install.info",
)
"""What the driver installs: the Ascend plugin mounts it into containers."""


def missing() -> str:
    """Return why no plugins can run here, empty if they can."""
    return "" if (PLUGINS / "key").exists() else f"no device plugins in {PLUGINS} (make node)"


class Card(NamedTuple):
    """A GPU of the stand-in for NVML."""

    uuid: str
    mib: int
    model: str


class Plugins:
    """The device plugins of the node. One runs at a time for GPUs, and one for Ascend chips."""

    def __init__(self, cluster: RealNode) -> None:
        """Install what the plugins' own manifests have beside their DaemonSets."""
        self.cluster = cluster
        self.instances_file = cluster.directory / "instances"
        self._assets = cluster.directory / "assets"
        objects = [*_objects("vgpu-plugin"), *_objects("ascend-plugin")]
        cluster.apply(*(one for one in objects if one["kind"] not in ("DaemonSet", "ConfigMap")))
        # As Volcano's guide says for both in one cluster: the ConfigMaps are merged.
        (geometries,) = [one for one in objects if one["metadata"]["name"] == GEOMETRIES]
        (chips,) = _objects("ascend-devices")
        key = "device-config.yaml"
        geometries["data"][key] += "\n" + chips["data"][key]
        cluster.apply(geometries)
        self.geometries: Object = yaml.safe_load(geometries["data"][key])
        HOOKS.mkdir(exist_ok=True)
        self._assets.mkdir()
        for directory in ("/usr/local", "/etc"):
            mount_overlay(directory, cluster.directory / "overlays" / directory.strip("/"))
        chips_file = cluster.directory / "ascend-devices.yaml"
        chips_file.write_text(chips["data"][key])
        for path in (*_ASCEND_FILES, HOOKS / "libvgpu.so", HOOKS / "ld.so.preload"):
            _make_file(Path(path))
        for name in ("libvnpu.so", "ld.so.preload"):
            _make_file(self._assets / name)

    def end(self) -> None:
        """End the plugins that run."""
        for name in ("vgpu-plugin", "gpu-plugin", "ascend-plugin"):
            if name in self.cluster.running:
                self.cluster.end(name)
        # The GPU plugin writes it into the node's status itself where it shares memory, and leaves it there.
        self.cluster.offer({CARDS: 0})

    def run_vgpu(self, mode: str, cards: Sequence[Card]) -> None:
        """Start the vGPU plugin in a mode on these cards, and wait until the node has them."""
        configuration = {"nodeconfig": [{"name": NAME, "operatingmode": mode}]}
        Path("/config/config.json").write_text(json.dumps(configuration))
        self._write_cards(cards, mig=mode == "mig")
        self.start_vgpu()
        self.wait_for_vgpus(cards)
        self.cluster.wait("the vGPU plugin registers its cards", lambda: self._registered(cards, mode), 60)

    def start_vgpu(self) -> None:
        """Start the vGPU plugin as it ran before."""
        self._start("vgpu-plugin", PLUGIN_ACCOUNT)

    def wait_for_vgpus(self, cards: Sequence[Card]) -> None:
        """Wait until kubelet offers the vGPUs of these cards."""
        self._wait_for("volcano.sh/vgpu-number", len(cards) * self.geometries["nvidia"]["deviceSplitCount"])
        self._wait_for("volcano.sh/vgpu-memory", sum(card.mib for card in cards))

    def offered(self, resource: str) -> int:
        """Return how much of a resource kubelet offers."""
        return int(self.cluster.get("node", NAME)["status"]["allocatable"].get(resource, 0))

    def run_gpu(self, strategy: str, cards: Sequence[Card]) -> None:
        """Start the GPU plugin, which shares memory (``share``) or gives whole cards (``number``)."""
        self._write_cards(cards, mig=False)
        self._start("gpu-plugin", PLUGIN_ACCOUNT, f"--gpu-strategy={strategy}")
        by_memory = "volcano.sh/gpu-memory", sum(card.mib for card in cards)
        self._wait_for(*(by_memory if strategy == "share" else (CARDS, len(cards))))

    def run_ascend(self, chip: str, ids: Sequence[str], *, shared: bool) -> None:
        """Start the Ascend plugin on chips of a type, which HAMi-core shares, or templates partition."""
        entry = next(one for one in self.geometries["vnpus"]["configs"] if one["chipName"] == chip)
        nodes = [{"name": NAME, "hami-vnpu-core": True, "vDeviceCount": 8}] if shared else []
        configuration = self.cluster.directory / "ascend-node.yaml"
        configuration.write_text(yaml.safe_dump({"nodes": nodes}))
        self.cluster.kubectl("label", "node", NAME, "ascend=on", "--overwrite")
        self._start(
            "ascend-plugin",
            ASCEND_ACCOUNT,
            f"--config_file={self.cluster.directory / 'ascend-devices.yaml'}",
            f"--node_config_file={configuration}",
            STANDIN_CHIPS=" ".join((chip, *ids)),
            HAMI_VNPU_ASSETS_PATH=str(self._assets),
        )
        smallest = min(template["memory"] for template in entry["templates"])
        slots = 8 if shared else entry["memoryAllocatable"] // smallest
        self._wait_for(entry["resourceName"], len(ids) * slots)
        key = f"hami.io/node-register-{entry['commonWord']}"
        self.cluster.wait(
            "the Ascend plugin registers its chips", lambda: ids[0] in self._annotations().get(key, ""), 60
        )

    def mig_instances(self) -> dict[str, tuple[int, int, str]]:
        """Return the card, the place on it and the profile of each MIG instance, by UUID."""
        rows = [line.split() for line in self.instances_file.read_text().splitlines()]
        return {uuid: (int(card), int(place), profile) for card, place, uuid, profile in rows}

    def _write_cards(self, cards: Sequence[Card], *, mig: bool) -> None:
        text = "".join(f"{card.uuid} {card.mib} {int(mig)} {card.model}\n" for card in cards)
        (self.cluster.directory / "cards").write_text(text)
        self.instances_file.write_text("")

    def _start(self, name: str, account: str, *arguments: str, **environment: str) -> None:
        kubeconfig = kubeconfig_of(self.cluster, "kube-system", account)
        variables = {
            "NODE_NAME": NAME,
            "KUBECONFIG": str(kubeconfig),
            "LD_LIBRARY_PATH": str(PLUGINS / "lib"),
            "PATH": f"{_SOURCES}:{os.environ['PATH']}",
            "STANDIN_CARDS": str(self.cluster.directory / "cards"),
            "STANDIN_INSTANCES": str(self.instances_file),
            "DEVICE_DISCOVERY_STRATEGY": "nvml",
            "DP_DISABLE_HEALTHCHECKS": "all",
            **({"HOOK_PATH": str(HOOKS)} if name == "vgpu-plugin" else {}),
            **environment,
        }
        self.cluster.run(name, *arguments, program=PLUGINS / name, environment=variables)

    def _registered(self, cards: Sequence[Card], mode: str) -> bool:
        found = self._annotations().get("volcano.sh/node-vgpu-register", "")
        return found.count(f",{mode}") == len(cards) and all(card.uuid in found for card in cards)

    def _annotations(self) -> Mapping[str, str]:
        return self.cluster.get("node", NAME)["metadata"].get("annotations") or {}

    def _wait_for(self, resource: str, count: int) -> None:
        self.cluster.wait(f"the node has {count} {resource}", lambda: self.offered(resource) == count, 120)


def kubeconfig_of(cluster: RealNode, namespace: str, account: str) -> Path:
    """Return a kubeconfig of a service account."""
    token = cluster.kubectl("create", "token", account, f"--namespace={namespace}", "--duration=4h").strip()
    configuration = yaml.safe_load(cluster.kubeconfig.read_text())
    configuration["users"] = [{"name": user["name"], "user": {"token": token}} for user in configuration["users"]]
    kubeconfig = cluster.directory / f"{account}.kubeconfig"
    kubeconfig.write_text(json.dumps(configuration))
    return kubeconfig


class Inside(NamedTuple):
    """What a container has."""

    environment: dict[str, str]
    mounts: dict[str, str]
    """The path in its file system that is mounted, by the place in the container."""

    def given(self, prefixes: Iterable[str]) -> dict[str, str]:
        """Return the variables whose names begin so."""
        return {name: value for name, value in self.environment.items() if name.startswith(tuple(prefixes))}


def inside(pods: Iterable[Object]) -> dict[tuple[str, str], Inside]:
    """Return what the first process of each running container sees, by pod and container."""
    return {place: Inside(_environment(pid), _mounts(pid)) for place, pid in _first_processes(pods).items()}


def end_processes(pods: Iterable[Object]) -> None:
    """Kill the first process of each running container: one that sleeps would outlast its grace period."""
    for pid in _first_processes(pods).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _first_processes(pods: Iterable[Object]) -> dict[tuple[str, str], int]:
    first: dict[str, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            group = re.search(r"/pod[0-9a-f-]{36}/([0-9a-f]{64})$", (path / "cgroup").read_text(), re.MULTILINE)
        except OSError:
            continue
        if group:
            first[group[1]] = min(int(path.name), first.get(group[1], int(path.name)))
    found = {}
    for pod in pods:
        for status in pod["status"].get("containerStatuses", ()):
            pid = first.get(status.get("containerID", "").removeprefix("containerd://"))
            if pid is not None:
                found[pod["metadata"]["name"], status["name"]] = pid
    return found


def _environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _mounts(pid: int) -> dict[str, str]:
    rows = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    return {row[4]: row[3] for row in rows}


def _objects(name: str) -> list[Object]:
    return [one for one in yaml.safe_load_all((PLUGINS / f"{name}.yaml").read_text()) if one]


def _make_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" if path.name == "npu-smi" else "")
    path.chmod(0o755)


def mount_overlay(directory: str, changes: Path) -> None:
    """Let the node write into a directory of the machine, which stays as it is."""
    for part in ("upper", "work"):
        (changes / part).mkdir(parents=True)
    layers = f"lowerdir={directory},upperdir={changes / 'upper'},workdir={changes / 'work'}"
    do("mount", "-t", "overlay", "overlay", "-o", layers, directory)
