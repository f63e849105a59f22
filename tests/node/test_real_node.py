"""kubelet and containerd run a pod: the cluster on which the other tests of this directory stand."""

import re

from support import node
from support.node import RealNode

NAMESPACE = "plain"


def test_pod_of_the_default_scheduler_runs(real_node: RealNode) -> None:
    real_node.create_namespace(NAMESPACE)
    try:
        real_node.apply(node.pod("p", NAMESPACE))
        real_node.wait_for_pods(NAMESPACE, "Running", {"p"})
        seen = real_node.environment("p", NAMESPACE)
        # Set by containerd for the pod, and by kubelet from the Service that the API server makes for itself.
        assert seen["HOSTNAME"] == "p"
        assert seen["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    finally:
        real_node.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_versions_are_those_that_the_documents_name(real_node: RealNode) -> None:
    info = real_node.get("node", node.NAME)["status"]["nodeInfo"]
    page = (node.ROOT / "docs" / "compatibility.md").read_text()
    assert f"kubelet {info['kubeletVersion'].removeprefix('v')}" in page
    found = re.match(r"containerd://(\d+\.\d+)\.", info["containerRuntimeVersion"])
    assert found
