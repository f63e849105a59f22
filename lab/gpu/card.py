"""One card, shared by three pods: run.sh starts it in a mount namespace of its own.

It does kubelet's part: it takes the device plugin's registration, writes its devices into the node's status, requests
an answer for each container, and starts a process with the answer's variables and mounts. Prints what was found;
status 1 if anything is not as claimed.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
import yaml
from deviceshare_lab.bench.kube.apiserver import ApiServer

KIT = Path(__file__).parent
NODE = "gpu"
SOCKETS = Path("/var/lib/kubelet/device-plugins")
HOOKS = Path("/usr/local/vgpu")
RESOURCE = "volcano.sh/vgpu-number"
SECONDS = 120.0
"""How long to wait for a state."""
ABOVE = 20
"""Percent of the card by which a share may exceed its cores: HAMi-core corrects its rate by what it has measured."""

Object = dict[str, Any]
_T = TypeVar("_T")


class Share(NamedTuple):
    """A pod's claim: of the card's memory a part, and percent of its cores, 0 for no limit."""

    name: str
    part: int
    cores: int


SHARES = (Share("unlimited", 8, 0), Share("cores-30", 4, 30), Share("cores-60", 3, 60))
"""The first one's rate is what the others' are compared with."""


class Failed(Exception):
    """Something is not as claimed."""


def until(what: str, look: Callable[[], _T | None]) -> _T:
    """Return what is there as soon as it is."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        if time.monotonic() > end:
            raise Failed(f"not within {SECONDS:g} s: {what}")
        time.sleep(0.2)
    return found


class Api:
    """Requests to the API server as its ``admin``."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send one and return the answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._server.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._server.url}{path}", data, headers, method=method)  # noqa: S310 - ours
        with urllib.request.urlopen(request, context=self._server.tls(), timeout=30) as answer:  # noqa: S310
            found: Object = json.load(answer)
        return found

    def annotations(self, path: str) -> dict[str, str]:
        """Return those of an object."""
        found: dict[str, str] = self.request("GET", path)["metadata"].get("annotations", {})
        return found


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and values of the texts and messages of a protobuf message, without those of other types."""
    at = 0

    def number() -> int:
        nonlocal at
        found, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    while at < len(message):
        tag = number()
        size = number()
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + size]
            at += size


def field(number: int, value: bytes) -> bytes:
    """Return a text or message as a field of a protobuf message."""
    size, length = len(value), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


class Kubelet(grpc.GenericRpcHandler):  # type: ignore[misc]
    """What a device plugin sees of kubelet: ``v1beta1.Registration``, and the calls of ``v1beta1.DevicePlugin``.

    The numbers of fields are those of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
    """

    def __init__(self) -> None:
        self.devices: dict[str, list[bytes]] = {}
        """The ids of the devices of each resource."""
        self._channels: dict[str, grpc.Channel] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{SOCKETS / 'kubelet.sock'}")
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return what answers a call."""
        if details.method == "/v1beta1.Registration/Register":
            return grpc.unary_unary_rpc_method_handler(self._register)
        return None

    def _register(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        named = {number: value.decode() for number, value in fields(request) if number in (2, 3)}
        endpoint, resource = named[2], named[3]
        self._channels[resource] = grpc.insecure_channel(
            f"unix:{SOCKETS / endpoint}", options=[("grpc.max_receive_message_length", -1)]
        )
        threading.Thread(target=self._follow, args=(resource,), daemon=True).start()
        return b""

    def _follow(self, resource: str) -> None:
        follow = self._channels[resource].unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
        # It ends with the plugin.
        with suppress(grpc.RpcError):
            for answer in follow(b"", wait_for_ready=True):
                self.devices[resource] = [dict(fields(device))[1] for _, device in fields(answer)]

    def allocate(self, resource: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Have a container's one device allocated; return its variables, and its mounts from the machine into it."""
        call = self._channels[resource].unary_unary("/v1beta1.DevicePlugin/Allocate")
        answer = call(field(1, field(1, self.devices[resource][0])), timeout=SECONDS)
        ((_, container),) = fields(answer)
        given = [(number, dict(fields(value))) for number, value in fields(container)]
        variables = {value[1].decode(): value.get(2, b"").decode() for number, value in given if number == 1}
        return variables, [(value[2].decode(), value[1].decode()) for number, value in given if number == 2]


def run_inside(
    share: Share, memory: int, variables: Mapping[str, str], mounts: list[tuple[str, str]], rounds: str
) -> Object:
    """Run check.py as a container's process, with its variables and mounts alone; return what it found."""
    script = """set -e
    while [ "$1" != -- ]; do
      mkdir -p "$(dirname "$2")"
      if [ -d "$1" ]; then mkdir -p "$2"; else touch "$2"; fi
      mount --bind "$1" "$2"
      shift 2
    done
    shift
    exec "$@" """
    places = [place for mount in mounts for place in mount]
    # The first device is NVML's first.
    command = ["env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", *(f"{name}={value}" for name, value in variables.items())]
    command += [sys.executable, str(KIT / "check.py"), str(memory), *([rounds] if rounds else [])]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "STANDIN_CARDS") if name in os.environ}
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, share.name, *places, "--", *command],
        env=kept, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise Failed(
            f"{share.name}: its process ended with {done.returncode}: {done.stderr[-2000:]}{done.stdout[-500:]}"
        )
    found: Object = json.loads(done.stdout.splitlines()[-1])
    return found


def share_card(api: Api, kubelet: Kubelet) -> None:
    """Wait for the card, have the pods decided, and check each. Raises Failed."""
    node = f"/api/v1/nodes/{NODE}"
    register = until(
        "the plugin registers the card", lambda: api.annotations(node).get("volcano.sh/node-vgpu-register")
    )
    uuid, _, memory, model, *_ = register.split(":")[0].split(",")
    print(f"card {uuid}: {model}, {memory} MiB")
    names = RESOURCE, "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
    until("the plugin lists its devices", lambda: all(kubelet.devices.get(name) for name in names))
    amounts = {name: str(len(kubelet.devices[name])) for name in names}
    amounts |= {"cpu": "64", "memory": "256Gi", "pods": "110"}
    api.request("PATCH", f"{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})

    pods = "/api/v1/namespaces/default/pods"
    claims = {share.name: int(memory) // share.part for share in SHARES}
    for share in SHARES:
        limits = {RESOURCE: 1, "volcano.sh/vgpu-memory": claims[share.name]}
        limits |= {"volcano.sh/vgpu-cores": share.cores} if share.cores else {}
        container = {"name": "c", "image": "none", "resources": {"limits": {k: str(v) for k, v in limits.items()}}}
        # The first card: the process sees all of the machine, and HAMi-core limits the first device.
        metadata = {"name": share.name, "annotations": {"volcano.sh/vgpu-use-gpuuuid": uuid}}
        spec = {"schedulerName": "deviceshare", "containers": [container]}
        api.request("POST", pods, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec})
    answers: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {}

    def next_bound() -> Object | None:
        there = (pod for pod in api.request("GET", pods)["items"] if pod["spec"].get("nodeName"))
        return next((pod for pod in there if pod["metadata"]["name"] not in answers), None)

    # The binder hands over a pod of this node when kubelet has admitted the one before.
    while len(answers) < len(SHARES):
        pod = until("deviceshare binds a pod", next_bound)
        name = pod["metadata"]["name"]
        print(f"{name}: {pod['metadata']['annotations']['volcano.sh/vgpu-ids-new']}")
        answers[name] = kubelet.allocate(RESOURCE)
        status = {"phase": "Running", "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        api.request("PATCH", f"{pods}/{name}/status", {"status": status})

    full, rounds = 0.0, ""
    for share in SHARES:
        variables, mounts = answers[share.name]
        claim, cores = claims[share.name], share.cores
        expected = {
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{claim}m",
            "CUDA_DEVICE_SM_LIMIT": str(cores),
            "NVIDIA_VISIBLE_DEVICES": uuid,
        }
        if given := {name: variables.get(name) for name, value in expected.items() if variables.get(name) != value}:
            raise Failed(f"{share.name}: the plugin's variables have {given}, the claim is {expected}")
        found = run_inside(share, claim << 20, variables, mounts, rounds)
        rate, rounds = found["launches_per_second"], str(found["rounds"])
        full = full or rate
        percent = rate * 100 / full
        print(f"{share.name}: {found['total'] >> 20} of {memory} MiB; {rate:.1f} launches per second, {percent:.0f} %")
        if found["total"] != claim << 20:
            raise Failed(f"{share.name}: it sees {found['total']} bytes, and has claimed {claim << 20}")
        if found["allocations"] != [0, 2]:
            raise Failed(
                f"{share.name}: allocations within and beyond the claim returned {found['allocations']}, not 0, 2"
            )
        if cores and percent > cores + ABOVE:
            raise Failed(f"{share.name}: it has {percent:.0f} % of the card's rate, and has claimed {cores} %")


def main() -> None:
    """Start everything, check, and end it."""
    os.environ["DEVICESHARE_RUN_DIR"] = directory = tempfile.mkdtemp()
    logs = {name: Path(directory) / f"{name}.log" for name in ("plugin", "deviceshare")}
    server = ApiServer(KIT, Path(directory) / "kube")
    with ExitStack() as ending:
        ending.callback(server.stop)
        server.start()
        api = Api(server)
        os.environ["KUBECONFIG"] = str(server.kubeconfig())

        def start(name: str, *command: str, **variables: str) -> None:
            with logs[name].open("wb") as log:
                process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)
            ending.callback(process.wait)
            ending.callback(process.terminate)

        for one in yaml.safe_load_all((KIT / "vgpu-plugin.yaml").read_text()):
            if one and one["kind"] == "ConfigMap":
                api.request("POST", "/api/v1/namespaces/kube-system/configmaps", one)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
        api.request(
            "POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": ready}
        )
        api.request("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})

        SOCKETS.mkdir(parents=True, exist_ok=True)
        HOOKS.mkdir(parents=True, exist_ok=True)
        (HOOKS / "libvgpu.so").write_bytes((KIT / "libvgpu.so").read_bytes())
        (HOOKS / "ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
        kubelet = Kubelet()
        own = {"NODE_NAME": NODE, "HOOK_PATH": str(HOOKS), "DEVICE_DISCOVERY_STRATEGY": "nvml"}
        start("plugin", str(KIT / "vgpu-plugin"), **own)
        command = Path(sys.executable).with_name("deviceshare")
        start("deviceshare", str(command), "up", "--cluster", "kube", "--metrics-port", "0")
        try:
            share_card(api, kubelet)
        except (Failed, OSError, grpc.RpcError, subprocess.TimeoutExpired) as failure:
            for name, path in logs.items():
                print(f"--- {name}\n{path.read_text()[-3000:]}", file=sys.stderr)
            sys.exit(f"FAILED: {failure}")
    print("ok: memory beyond the claims was refused, and cores were throttled")


if __name__ == "__main__":
    main()
