"""The cluster of one real node, which all tests of a run share."""

from collections.abc import Iterator

import pytest
from support import node, node_plugins, node_scenes
from support.node import RealNode
from support.node_plugins import Plugins


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
