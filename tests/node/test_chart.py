"""The images of deploy/Dockerfile and the Helm chart, on a real kubelet, with the default values."""

from collections.abc import Iterator

import pytest
from support import charts, node_chart
from support.node import RealNode
from support.node_chart import SYSTEM, WORK, card_pod

SERVICES = {"inventory": 2, "placement": 2, "binder": 2, "metrics": 1, "setup": 1}


@pytest.fixture(scope="module")
def installed(real_node: RealNode) -> Iterator[RealNode]:
    node_chart.install(real_node, charts.CHART, 2)
    yield real_node
    node_chart.uninstall(real_node)
    node_chart.delete_rest(real_node)


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
