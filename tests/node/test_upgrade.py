"""Upgrade from the earlier release and rollback under load on a real kubelet, and what an uninstallation leaves."""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from deviceshare_bus.messages.permissions import USERS
from deviceshare_lab.checker.cards import Parts
from support import charts, node_chart
from support.agents.api import Api
from support.history import History, asked
from support.node import IMAGES, RealNode
from support.node_chart import SYSTEM, WORK, card_pod

log = logging.getLogger(__name__)

PREVIOUS = IMAGES / "previous"
CARDS = 4
WORKERS = 6
"""Pods at a time: two wait for a card at any moment."""
PODS = 12
"""Pods that come and go between two steps, at least."""
WAITING = 300.0
"""Seconds after which a pod that does not run is lost."""
OLD_REQUESTS = tuple(f"{name}.resources.requests.cpu=50m" for name in ("inventory", "placement", "binder"))
"""The earlier chart's requests, 2,010m CPU, do not fit a machine of two cores."""


@pytest.fixture(scope="module")
def listed_before(real_node: RealNode) -> set[str]:
    return everything(real_node)


@pytest.fixture(scope="module")
def earlier(real_node: RealNode, listed_before: set[str]) -> RealNode:
    """Gives a cluster with the earlier release."""
    if not (PREVIOUS / "commit").exists():
        pytest.skip("allowed: no images of the earlier commit (make node)")
    for image in ("previous/deviceshare", "previous/deviceshare-cli"):
        real_node.load(image)
    chart = PREVIOUS / "deploy" / "helm" / "deviceshare"
    node_chart.install(real_node, chart, CARDS, *OLD_REQUESTS)
    return real_node


class Load:
    """Pods that come, run and go, each once, all the time. Use :meth:`work` as a task for each pod at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.ending = False
        self.created = 0
        self.gone: Counter[str] = Counter()
        """How many pods have ended in which way."""
        self.longest = 0.0
        """The most seconds after which one ran."""

    async def work(self) -> None:
        """Create pods, one after the other."""
        path = f"/api/v1/namespaces/{WORK}/pods"
        while not self.ending:
            name = f"load-{self.created}"
            self.created += 1
            await self._api.request("POST", path, card_pod(name, automountServiceAccountToken=False))
            self.gone[await self._outcome(f"{path}/{name}")] += 1
            await self._api.request("DELETE", f"{path}/{name}")
            while await self._api.get(f"{path}/{name}") is not None:
                await asyncio.sleep(0.2)

    async def _outcome(self, path: str) -> str:
        begun = asyncio.get_running_loop().time()
        while (waited := asyncio.get_running_loop().time() - begun) < WAITING:
            pod = await self._api.get(path)
            if pod is None or (phase := pod["status"].get("phase")) in ("Failed", "Succeeded"):
                return json.dumps(pod and pod["status"])
            if phase == "Running":
                self.longest = max(self.longest, waited)
                return "ran"
            await asyncio.sleep(0.2)
        return f"did not run: {path}"

    async def more(self, count: int) -> None:
        """Wait until so many more pods have ended."""
        count += self.gone.total()
        while self.gone.total() < count:
            await asyncio.sleep(0.2)


def images(cluster: RealNode) -> set[str]:
    """Return the images of ours that run."""
    pods = cluster.get("pods", "--namespace", SYSTEM, "--field-selector=status.phase=Running")["items"]
    found = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    return {image.partition(":")[2] for image in found if image.startswith("deviceshare")}


def version(directory: Path) -> str:
    return str(charts.yaml.safe_load((directory / "Chart.yaml").read_text())["appVersion"])


@pytest.mark.timeout(1200)
async def test_no_pod_is_lost_or_bound_twice_in_an_upgrade_and_back(earlier: RealNode) -> None:
    old, new = version(PREVIOUS / "deploy" / "helm" / "deviceshare"), version(charts.CHART)
    assert old != new
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api(earlier.kubeconfig))
        history = await stack.enter_async_context(History(api, Parts()))
        load = Load(api)
        workers = [asyncio.create_task(load.work()) for _ in range(WORKERS)]
        try:
            await load.more(PODS)
            assert images(earlier) == {old}
            await asyncio.to_thread(node_chart.upgrade, earlier, charts.CHART)
            assert new in images(earlier)
            await load.more(PODS)
            assert images(earlier) == {new}
            await asyncio.to_thread(node_chart.helm, earlier, "rollback", "deviceshare", "--wait", "--timeout", "5m")
            await load.more(PODS)
            assert images(earlier) == {old}
        finally:
            load.ending = True
            done = await asyncio.gather(*workers, return_exceptions=True)
        assert done == [None] * WORKERS
        said = node_chart.logs(earlier, 10_000)
        assert load.gone == {"ran": load.created}
        assert history.wrong == []
        assert history.gaps == 0
    bindings = Counter(one.what for one in asked(earlier.directory) if is_binding(one, WORK))
    assert bindings == {f"pods/binding {WORK}/load-{number}": 1 for number in range(load.created)}
    assert "quarantined an invalid message" not in said
    assert "the service failed" not in said
    log.info("%d pods came and went, the longest wait was %.0f s", load.created, load.longest)


def is_binding(one: Any, namespace: str) -> bool:
    return one.what.startswith(f"pods/binding {namespace}/load-") and one.code < 300


def everything(cluster: RealNode) -> set[str]:
    """Return kind and name of all objects, but for those that say what happens."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    kinds = [kind for kind in kinds if not kind.startswith(("events", "componentstatuses", "leases"))]
    columns = "custom-columns=KIND:.kind,NAME:.metadata.name"
    listed = cluster.kubectl("get", ",".join(kinds), "--all-namespaces", "--no-headers", f"--output={columns}")
    return {" ".join(line.split()) for line in listed.splitlines() if line.strip()}


KEPT = {
    *(f"Secret deviceshare-{name}" for name in ("signing", "http")),
    *(f"Secret deviceshare-bus-{name}" for name in (*USERS, "server")),
    "PersistentVolumeClaim store-bus-0",
    "NetworkPolicy credentials",
    "Role deviceshare-credentials",
    "RoleBinding deviceshare-credentials",
    "ServiceAccount credentials",
    "CustomResourceDefinition podgroups.scheduling.volcano.sh",
    "CustomResourceDefinition queues.scheduling.volcano.sh",
    "APIService v1beta1.scheduling.volcano.sh",
    "Queue default",
    "Queue root",
}
"""What docs/install.md says that an uninstallation keeps."""


@pytest.mark.timeout(600)
def test_an_uninstallation_leaves_what_the_page_names_and_then_nothing(
    earlier: RealNode, listed_before: set[str]
) -> None:
    node_chart.uninstall(earlier)
    # What the test has made itself, and the namespaces with what Kubernetes puts into each.
    own = {"ConfigMap volcano-scheduler-configmap", "PersistentVolume bus", "ConfigMap kube-root-ca.crt"}
    own |= {"Namespace work", "Namespace deviceshare-system", "ServiceAccount default"}

    def kept() -> bool:
        # Helm does not wait for pods and for Jobs, which end by themselves.
        nonlocal left
        left = {line for line in everything(earlier) - listed_before if not line.startswith(("Pod ", "Job "))} - own
        return left == KEPT

    left: set[str] = set()
    with contextlib.suppress(TimeoutError):
        earlier.wait("the rest is as documented", kept, 120)
    assert left == KEPT
    node_chart.delete_rest(earlier)
    assert everything(earlier) - listed_before == set()
