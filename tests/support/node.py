"""A cluster of one real node: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd and kubelet.

It lives in the namespaces that ``tests/node/run.sh`` makes, and ends with them. Pods have a network of their own (CNI).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from support import apiserver as kube
from support.apiserver import ApiServer
from support.history import audit_options

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "node"
IMAGES = CACHE / "images"
NAME = "node-1"
PAUSE = "docker.io/local/pause:1"
Object = dict[str, Any]

_ADDRESS = "10.88.0.1"
_DNS = "10.88.0.10"
_PODS = "10.244.0.0/24"
_CNI = Path("/usr/lib/cni")
_CGROUPS = Path("/sys/fs/cgroup")
_PROGRAMS = ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl", "coredns")
_IMAGES = ("pause", "nats", "deviceshare", "deviceshare-cli")
_API_SERVER = ("--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP")
_DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins/kubelet.sock")
_PROCESSORS, _MEMORY = 48, 256 << 20
"""What kubelet takes the machine for, memory in kB: a Job of Volcano's guides requests 32 cores and 128 Gi."""
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What kubelet sets for the whole machine, and to which value: it sees files instead."""


def missing() -> str:
    """Return why no node can run here, empty if one can."""
    if os.geteuid():
        return "not root"
    if not os.environ.get("DEVICESHARE_NODE_CGROUP"):
        return "not in namespaces of its own (make test-node)"
    if not _controllers():
        return "no cgroups that can be written"
    absent = [name for name in ("containerd", "runc", "ctr", "iptables", "conntrack") if shutil.which(name) is None]
    absent += [str(_CNI / name) for name in ("ptp", "host-local", "portmap") if not (_CNI / name).exists()]
    absent += [f"{name} (make node)" for name in _PROGRAMS if not (CACHE / name).exists()]
    absent += [f"image {name} (make node)" for name in _IMAGES if not (IMAGES / f"{name}.tar").exists()]
    return f"there is no {', no '.join(absent)}" if absent else ""


def _controllers() -> list[Path]:
    """Return the hierarchies in which kubelet makes its groups: one of cgroup v2, or several of v1."""
    roots = [_CGROUPS] if (_CGROUPS / "cgroup.controllers").exists() else sorted(_CGROUPS.glob("*/"))
    return [root for root in roots if os.access(root, os.W_OK) and (root / "cgroup.procs").exists()]


class RealNode:
    """The cluster. ``kubectl`` acts as ``admin``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._loaded: set[str] = set()
        self._cgroup = os.environ["DEVICESHARE_NODE_CGROUP"]
        options = (*_API_SERVER, *audit_options(directory))
        self.server = ApiServer(kube.binaries(), directory / "kube", *options, address=_ADDRESS)

    def start(self) -> None:
        """Start everything and wait until the node is Ready. Raises TimeoutError."""
        self._isolate()
        self.server.start()
        self.kubeconfig = self.server.kubeconfig()
        keys, certificates = self.directory / "kube" / "keys", self.directory / "kube" / "certs"
        own = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1")
        self.run(
            "kube-controller-manager",
            *own,
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={certificates / 'apiserver.crt'}",
        )
        self.run("kube-scheduler", *own)
        self.run_containerd()
        self.load("pause")
        self.run_kubelet()
        self.run_proxy()
        self.wait("the node is Ready", self._ready, 120)

    def stop(self) -> None:
        """End all processes, those of containers among them, and delete what is stored."""
        for name in reversed(tuple(self._processes)):
            self.end(name)
        self.kill_containers()
        self.server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill_containers(self) -> None:
        """Kill the processes of all containers."""
        for group in self._groups():
            # What containerd still runs removes groups meanwhile.
            with suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)

    def run(
        self, name: str, *arguments: str, program: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a process of the cluster, with these variables in addition."""
        with (self.directory / f"{name}.log").open("ab") as log:
            command, variables = [str(program or CACHE / name), *arguments], {**os.environ, **(environment or {})}
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=variables)

    @property
    def running(self) -> frozenset[str]:
        """The processes that were started and not ended."""
        return frozenset(self._processes)

    def end(self, name: str) -> None:
        """Kill a process of the cluster."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def run_containerd(self) -> None:
        """Start containerd and wait until it answers."""
        home = self.directory / "containerd"
        (home / "net.d").mkdir(parents=True, exist_ok=True)
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                # Between pods every packet is routed: on a bridge, answers of Services would go past iptables.
                {
                    "type": "ptp",
                    "ipam": {"type": "host-local", "subnet": _PODS, "routes": [{"dst": "0.0.0.0/0"}]},
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
        (home / "net.d" / "pods.conflist").write_text(json.dumps(network))
        (home / "config.toml").write_text(f"""version = 2
root = "{home}/root"
state = "/run/containerd/state"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
# Without CAP_SYS_RESOURCE the score of a process cannot be lowered.
restrict_oom_score_adj = true
sandbox_image = "{PAUSE}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{_CNI}"
conf_dir = "{home}/net.d"
""")
        self.run("containerd", "--config", str(home / "config.toml"), program=Path(shutil.which("containerd") or ""))
        self.wait("containerd answers", lambda: self.ctr("version").returncode == 0, 60)

    def run_kubelet(self) -> None:
        """Start kubelet."""
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": _ADDRESS,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "clusterDNS": [_DNS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "enforceNodeAllocatable": [],
            "evictionHard": {},
            # Images stay: no registry has them.
            "imageGCHighThresholdPercent": 100,
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            # By default the node has the resources of a device plugin after up to 10 s.
            "nodeStatusUpdateFrequency": "1s",
        }
        (self.directory / "kubelet.json").write_text(json.dumps(configuration))
        self.run(
            "kubelet",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self.directory / 'kubelet.json'}",
            f"--hostname-override={NAME}",
            f"--node-ip={_ADDRESS}",
            "--root-dir=/var/lib/kubelet",
        )

    def reboot(self) -> None:
        """Let the node lose all processes and what is in memory, as by a reboot, and start it again."""
        for name in ("kubelet", "containerd"):
            self.end(name)
        self.kill_containers()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ProcessLookupError):
                if (path / "comm").read_text().startswith("containerd-shim"):
                    os.kill(int(path.name), signal.SIGKILL)
        # With one mount those go that were propagated from it.
        while places := _mounted_under("/run/netns/", "/run/containerd/", "/run/user/"):
            do("umount", "--lazy", places[0])
        for directory in ("/run/netns", "/run/containerd", "/var/lib/cni"):
            for path in Path(directory).glob("*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.wait("the groups of containers are gone", self._without_groups, 60)
        _DEVICE_PLUGINS.unlink(missing_ok=True)
        self.run_containerd()
        self.run_kubelet()
        self.wait("kubelet takes device plugins", self._takes_device_plugins, 60)

    def _groups(self) -> list[Path]:
        """Return the groups of the node in all hierarchies, each before those in it."""
        return [Path(path) for root in _controllers() for path, _, _ in os.walk(root / self._cgroup)]

    def _without_groups(self) -> bool:
        """Remove the groups of containers that have ended, and return whether none is left."""
        groups = [group for group in self._groups() if group.name != self._cgroup]
        for group in reversed(groups):
            with suppress(OSError):
                group.rmdir()
        return not any(group.exists() for group in groups)

    def _takes_device_plugins(self) -> bool:
        # kubelet ends where containerd is not yet ready for it, and systemd would start it again.
        if self._processes["kubelet"].poll() is not None:
            self.end("kubelet")
            self.run_kubelet()
        return _DEVICE_PLUGINS.exists()

    def run_proxy(self) -> None:
        """Start kube-proxy, which leads the addresses of Services to pods."""
        configuration = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": _ADDRESS,
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "clusterCIDR": _PODS,
            "hostnameOverride": NAME,
            # The machine's limits stay as they are.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "mode": "iptables",
        }
        (self.directory / "proxy.json").write_text(json.dumps(configuration))
        self.run("kube-proxy", f"--config={self.directory / 'proxy.json'}")

    def run_dns(self) -> None:
        """Start CoreDNS on the address of the cluster's DNS alone, as a process of the node, unless it runs."""
        if "coredns" in self._processes:
            return
        do("ip", "address", "add", f"{_DNS}/32", "dev", "lo")
        zone = f"kubernetes cluster.local {{\n kubeconfig {self.kubeconfig}\n }}"
        (self.directory / "Corefile").write_text(f".:53 {{\n bind {_DNS}\n errors\n {zone}\n}}\n")
        self.run("coredns", "-conf", str(self.directory / "Corefile"))

    @staticmethod
    def make_writable(directory: str, user: int) -> None:
        """Make a directory of the node that a user owns, for a volume."""
        Path(directory).mkdir(parents=True)
        os.chown(directory, user, user)

    def offer(self, amounts: Mapping[str, int]) -> None:
        """Let the node offer resources that no device plugin has, 0 for none: kubelet keeps what it does not know."""
        written = {name: str(amount) if amount else None for name, amount in amounts.items()}
        patch = json.dumps({"status": {"capacity": written, "allocatable": written}})
        self.kubectl("patch", "node", NAME, "--subresource=status", "--type=merge", "--patch", patch)

    def load(self, image: str) -> None:
        """Import an image that ``make node`` built, once."""
        if image in self._loaded:
            return
        self._loaded.add(image)
        done = self.ctr("--namespace", "k8s.io", "images", "import", str(IMAGES / f"{image}.tar"))
        assert done.returncode == 0, done.stderr

    def name_image(self, name: str) -> None:
        """Let a name of an image stand for the one that sleeps."""
        domain, slash, _ = name.partition("/")
        full = name if slash and "." in domain else f"docker.io/{name if slash else f'library/{name}'}"
        done = self.ctr("--namespace", "k8s.io", "images", "tag", "--force", PAUSE, full)
        assert done.returncode == 0, done.stderr

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run containerd's own client."""
        command = ["ctr", "--address", "/run/containerd/containerd.sock", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl and return its output. Raises AssertionError with what it said."""
        command = [str(CACHE / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be created in it, which takes its service account."""
        self.kubectl("create", "namespace", name)
        found = ("get", "serviceaccount", "default", "--namespace", name, "--ignore-not-found")
        self.wait(f"{name} has a service account", lambda: self.kubectl(*found), 60)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change objects."""
        self.kubectl("apply", "-f", "-", given="\n---\n".join(json.dumps(one) for one in objects))

    def get(self, *arguments: str) -> Any:
        """Return an object, or a list of them."""
        return json.loads(self.kubectl("get", "-o", "json", *arguments))

    def wait(self, what: str, test: Callable[[], Any], seconds: float) -> Any:
        """Wait until ``test()`` is true, and return it. Raises TimeoutError with the ends of all logs."""
        until = time.monotonic() + seconds
        while not (value := test()):
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > until:
                raise TimeoutError(f"not after {seconds:g} s: {what}; ended: {ended}\n{self._logs()}")
            time.sleep(0.2)
        return value

    def wait_for_pods(self, namespace: str, phase: str, names: set[str], seconds: float = 120) -> None:
        """Wait until pods have a phase."""

        def reached() -> bool:
            pods = self.get("pods", "--namespace", namespace)["items"]
            return names <= {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == phase}

        self.wait(f"{sorted(names)} in {namespace} are {phase}", reached, seconds)

    def environment(self, pod: str, namespace: str) -> dict[str, str]:
        """Return the environment that a process in the container of a pod has."""
        lines = self.kubectl("exec", "--namespace", namespace, pod, "--", "env").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _ready(self) -> bool:
        conditions = [one for node in self.get("nodes")["items"] for one in node["status"].get("conditions", ())]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _isolate(self) -> None:
        """Make what has a fixed name our own: the settings of the kernel, the network, the cgroups."""
        for name, value in _SYSCTLS.items():
            file = self.directory / "sysctl" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
            do("mount", "--bind", str(file), f"/proc/sys/{name}")
        memory, processors, numa = (self.directory / name for name in ("memory", "processors", "numa"))
        memory.write_text(re.sub(r"(?m)^MemTotal:.*", f"MemTotal: {_MEMORY} kB", Path("/proc/meminfo").read_text()))
        do("mount", "--bind", str(memory), "/proc/meminfo")
        numa.mkdir()
        for number in range(_PROCESSORS):
            (processors / f"cpu{number}").mkdir(parents=True)
        # kubelet counts these where there are no NUMA nodes. Without a topology it gives no cpuset to its groups.
        do("mount", "--bind", str(processors), "/sys/devices/system/cpu")
        do("mount", "--bind", str(numa), "/sys/devices/system/node")
        do("ip", "link", "add", "node", "type", "veth", "peer", "name", "other-end")
        do("ip", "address", "add", f"{_ADDRESS}/24", "dev", "node")
        for end in ("node", "other-end"):
            do("ip", "link", "set", end, "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for root in _controllers():
            (root / self._cgroup).mkdir()

    def _logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.directory.glob("*.log")))


def do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def _mounted_under(*directories: str) -> list[str]:
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [place for place in places if place.startswith(directories)]


def pod(name: str, namespace: str, image: str = PAUSE, **spec: Any) -> Object:
    """Return a pod with one container that sleeps."""
    container = {"name": "c", "image": image, "imagePullPolicy": "Never"}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
