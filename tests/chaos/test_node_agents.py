"""The simulated kubelets."""

import asyncio
import random
from typing import Any

from deviceshare_lab.clusters import manifests
from deviceshare_lab.clusters.manifests import PodKind
from deviceshare_lab.world.apiserver import ApiServer, key_of
from deviceshare_lab.world.node_agents import NodeAgents
from deviceshare_lab.world.plugin import Given, Plugin
from deviceshare_lab.world.virtual_time import run

RESOURCE = "example.com/card"


class Recording(Plugin):
    """Serves every request."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def serves(self, node: str, resource: str) -> bool:
        return resource == RESOURCE

    async def allocate(self, node: str, resource: str, count: int) -> Given:
        self.nodes.append(node)
        return Given("one", "main", {})


def bound(name: str, node: str) -> dict[str, Any]:
    pod = manifests.pod(name, PodKind({RESOURCE: "1"}, {}))
    pod["metadata"]["uid"] = "one"
    pod["spec"]["nodeName"] = node
    return pod


def test_a_pod_with_the_uid_of_an_earlier_one_is_served_as_well() -> None:
    async def serve() -> tuple[list[str], list[str]]:
        server, plugin = ApiServer(lambda: 0.0), Recording()
        agents = NodeAgents(server, random.Random(0))
        agents._plugins = (plugin,)
        for name, node in (("a", "n1"), ("a-copy", "n2")):
            server.create(manifests.node(node, "hami-core", 1))
            pod = server.create(bound(name, node))
            await asyncio.sleep(10.0)  # of virtual time: longer than the agents take
            server.delete(key_of(pod))
        return plugin.nodes, agents.complaints

    assert run(serve, 1) == (["n1", "n2"], [])
