"""The cluster of one real node, which all tests of a run share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support import node, node_plugins, node_scenes
from support.node import ROOT, RealNode
from support.node_plugins import PLUGINS, Plugins


@pytest.fixture(scope="session")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """Give a running cluster of one node; tests delete the objects that they create."""
    if why := node.missing():
        pytest.skip(f"allowed: no real node: {why}")
    cluster = RealNode(tmp_path_factory.mktemp("node"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def installed_plugins(real_node: RealNode) -> Plugins:
    """Give the device plugins of the node, with the chart installed for them."""
    if why := node_plugins.missing():
        pytest.skip(f"allowed: {why}")
    node_scenes.deploy(real_node)
    return Plugins(real_node)


@pytest.fixture
def plugins(installed_plugins: Plugins) -> Iterator[Plugins]:
    """Give the device plugins for a scene; afterwards its pods are gone, and no plugin runs."""
    yield installed_plugins
    node_scenes.delete_pods(installed_plugins.cluster)
    installed_plugins.end()


@pytest.fixture(scope="session")
def volcano_account(installed_plugins: Plugins) -> Path:
    """Give a kubeconfig of Volcano's controllers, which may do everything, with Volcano's definitions and a queue."""
    cluster = installed_plugins.cluster
    definitions = [str(path) for path in sorted((PLUGINS / "volcano-crds").glob("*.yaml"))]
    files = [part for path in definitions for part in ("-f", path)]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", *files)
    cluster.create_namespace("volcano-system")
    cluster.kubectl("create", "serviceaccount", "volcano-controllers", "--namespace", "volcano-system")
    role = ("--clusterrole=cluster-admin", "--serviceaccount=volcano-system:volcano-controllers")
    cluster.kubectl("create", "clusterrolebinding", "volcano-controllers", *role)
    cluster.apply(yaml.safe_load((ROOT / "examples" / "queues" / "training.yaml").read_text()))
    return node_plugins.kubeconfig_of(cluster, "volcano-system", "volcano-controllers")


@pytest.fixture(scope="module")
def controllers(installed_plugins: Plugins, volcano_account: Path) -> Iterator[RealNode]:
    """Give the cluster with Volcano's controllers."""
    cluster = installed_plugins.cluster
    arguments = (f"--kubeconfig={volcano_account}", "--leader-elect=false", "--logtostderr")
    cluster.run("volcano-controllers", *arguments, program=PLUGINS / "volcano-controllers")
    yield cluster
    cluster.end("volcano-controllers")
