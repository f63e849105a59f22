"""The images of deploy/Dockerfile and the Helm chart, on a real kubelet: default values except where a machine of two
cores, or one without a registry of images, needs others."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from support import charts, node
from support.charts import CHART
from support.node import RealNode

SYSTEM = "deviceshare-system"
WORK = "work"
CARDS = "volcano.sh/gpu-number"
SERVICES = {"inventory": 2, "placement": 2, "binder": 2, "metrics": 1, "setup": 1}
OPTIONS = (
    "image.pullPolicy=Never",
    # The requests of the default values are 2,010m CPU.
    *(f"{name}.resources.requests.cpu=50m" for name in ("inventory", "placement", "binder")),
)
CONFIGURATION = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.GPUNumberEnable: "true"
"""
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "bus"},
    "spec": {
        "capacity": {"storage": "12Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/run/bus-store", "type": "DirectoryOrCreate"},
    },
}


def helm(cluster: RealNode, *arguments: str) -> None:
    command = [str(charts.tool("helm")), "--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        state = cluster.kubectl("get", "pods,pvc,events", "--all-namespaces", "--output=wide")
        logs = "\n".join(
            f"== {name}\n{cluster.kubectl('logs', '--namespace', SYSTEM, name, '--tail=20', '--ignore-errors')}"
            for name in cluster.kubectl("get", "pods", "--namespace", SYSTEM, "--output=name").split()
        )
        pytest.fail(f"helm {' '.join(arguments)}: {done.stderr}\n{state}\n{logs}")


def options() -> list[str]:
    return [part for option in OPTIONS for part in ("--set", option)]


@pytest.fixture(scope="module")
def installed(real_node: RealNode) -> Iterator[RealNode]:
    for image in ("deviceshare", "deviceshare-cli", "nats"):
        real_node.load(image)
    real_node.run_dns()
    real_node.make_writable("/run/bus-store", 65534)
    real_node.apply(VOLUME)
    # As Kubernetes' documents advertise an extended resource that no device plugin has: kubelet keeps it.
    patch = json.dumps({"status": {"capacity": {CARDS: "2"}}})
    real_node.kubectl("patch", "node", node.NAME, "--subresource=status", "--type=merge", "--patch", patch)
    real_node.create_namespace(SYSTEM)
    real_node.create_namespace(WORK)
    real_node.kubectl(
        "create",
        "configmap",
        "volcano-scheduler-configmap",
        f"--namespace={SYSTEM}",
        f"--from-literal=volcano-scheduler.conf={CONFIGURATION}",
    )
    helm(real_node, "install", "deviceshare", str(CHART), *options(), "--wait", "--timeout", "5m")
    yield real_node
    real_node.kubectl("delete", "namespace", WORK, "--wait=false")


def card_pod(name: str) -> node.Object:
    obj = node.pod(name, WORK, schedulerName="deviceshare")
    obj["spec"]["containers"][0]["resources"] = {"limits": {CARDS: "1"}}
    return obj


@pytest.mark.timeout(900)
def test_all_replicas_are_ready_in_containers_without_root(installed: RealNode) -> None:
    deployments = installed.get("deployments", "--namespace", SYSTEM)["items"]
    assert {one["metadata"]["name"]: one["status"].get("readyReplicas") for one in deployments} == SERVICES
    status = installed.kubectl("exec", "--namespace", SYSTEM, "deployment/placement", "--", "cat", "/proc/1/status")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(lines["Uid"].split()) == {"65534"}
    assert int(lines["CapEff"], 16) == 0


@pytest.mark.timeout(900)
def test_pods_are_bound_run_and_wait_for_cards(installed: RealNode) -> None:
    installed.apply(*(card_pod(f"card-{number}") for number in range(3)))
    try:

        def running() -> int:
            pods = installed.get("pods", "--namespace", WORK)["items"]
            return sum(pod["status"].get("phase") == "Running" for pod in pods)

        installed.wait("two of three pods run on two cards", lambda: running() == 2, 120)
        pods = installed.get("pods", "--namespace", WORK)["items"]
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        assert len(bound) == 2
        (waiting,) = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
        # A card that is given back lets the third run.
        installed.kubectl("delete", "pod", "--namespace", WORK, bound[0]["metadata"]["name"])
        installed.wait_for_pods(WORK, "Running", {waiting})
    finally:
        installed.kubectl("delete", "pods", "--namespace", WORK, "--all")
