"""The Helm chart on a real node: installed as docs/install.md says, and removed so."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support import charts, node
from support.node import RealNode

SYSTEM = charts.NAMESPACE
WORK = "work"
CARDS = "volcano.sh/gpu-number"
CONFIGURATION = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.GPUNumberEnable: "true"
"""
_STORE = Path("/run/bus-store")


def helm(cluster: RealNode, *arguments: str) -> None:
    """Run Helm in the namespace of the system. Fails the test with the state of the cluster where Helm fails."""
    command = [str(charts.tool("helm")), "--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        state = cluster.kubectl("get", "pods,pvc,events", "--all-namespaces", "--output=wide")
        pytest.fail(f"helm {' '.join(arguments)}: {done.stderr}\n{state}\n{logs(cluster)}")


def logs(cluster: RealNode, lines: int = 20) -> str:
    """Return the last lines of all containers of the system."""
    names = cluster.kubectl("get", "pods", "--namespace", SYSTEM, "--output=name").split()
    return "\n".join(
        f"== {name}\n{cluster.kubectl('logs', '--namespace', SYSTEM, name, f'--tail={lines}', '--ignore-errors')}"
        for name in names
    )


def install(cluster: RealNode, chart: Path, cards: int, *options: str, configuration: str = CONFIGURATION) -> None:
    """Install a chart with its images, and wait until it is ready; the node gets so many cards without a plugin."""
    for image in ("deviceshare", "deviceshare-cli", "nats"):
        cluster.load(image)
    cluster.run_dns()
    cluster.make_writable(str(_STORE), 65534)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "bus"},
        "spec": {
            "capacity": {"storage": "12Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(_STORE), "type": "Directory"},
        },
    }
    cluster.apply(volume)
    cluster.offer({CARDS: cards})
    cluster.create_namespace(SYSTEM)
    cluster.create_namespace(WORK)
    literal = f"--from-literal=volcano-scheduler.conf={configuration}"
    cluster.kubectl("create", "configmap", "volcano-scheduler-configmap", f"--namespace={SYSTEM}", literal)
    settings = _set("image.pullPolicy=Never", *options)
    helm(cluster, "install", "deviceshare", str(chart), *settings, "--wait", "--timeout", "5m")


def uninstall(cluster: RealNode) -> None:
    """Uninstall the chart."""
    helm(cluster, "uninstall", "deviceshare", "--wait")


def delete_rest(cluster: RealNode) -> None:
    """Delete what an uninstallation keeps, as docs/install.md says, and what :func:`install` added for the test."""
    selected = ("--namespace", SYSTEM, "-l", "app.kubernetes.io/part-of=deviceshare")
    cluster.kubectl("delete", "secret", *selected)
    cluster.kubectl("delete", "pvc", *selected)
    cluster.kubectl("delete", "namespace", SYSTEM)
    cluster.kubectl("delete", "-k", str(charts.KUBERNETES / "crds"))
    cluster.kubectl("delete", "namespace", WORK)
    cluster.kubectl("delete", "persistentvolume", "bus")
    shutil.rmtree(_STORE)


def upgrade(cluster: RealNode, chart: Path, *options: str) -> None:
    """Upgrade to a chart as docs/install.md says, and wait until it is ready."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(chart.parents[1] / "kubernetes" / "crds"))
    keep = ("--reset-then-reuse-values", "--wait", "--timeout", "5m")
    helm(cluster, "upgrade", "deviceshare", str(chart), *_set(*options), *keep)


def card_pod(name: str, **spec: object) -> node.Object:
    """Return a pod that requests a whole card."""
    obj = node.pod(name, WORK, schedulerName="deviceshare", **spec)
    obj["spec"]["containers"][0]["resources"] = {"limits": {CARDS: "1"}}
    return obj


def _set(*options: str) -> list[str]:
    return [part for option in options for part in ("--set", option)]
