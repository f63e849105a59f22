"""Inventory as a process-like whole: a local cluster on one nats-server, the bus on the same one."""

import asyncio

from deviceshare.model import Gone, NodeFact, PodFact, Synced
from deviceshare_bus.runtime import shell
from deviceshare_bus.streams.publisher import Publisher, Unknown, Write
from deviceshare_bus.wire.connection import connect
from deviceshare_cluster.interface import ClusterError
from deviceshare_inventory.service import main
from deviceshare_localcluster import LocalCluster
from support.inventory import settled, stands
from support.service import INVENTORY, at_work, fail_first_write, replayed_elsewhere
from support.waiting import until

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "annotations": {"volcano.sh/node-vgpu-register": "nonsense"}},
    "status": {"allocatable": {"cpu": "4", "pods": "10"}, "capacity": {"cpu": "4", "pods": "10"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "busybox"}]},
}


def running(url):
    """Inventory at work; gives its context."""
    return at_work("inventory", main, url, **INVENTORY | {"cluster": f"local:{url}"})


async def bind(cluster, uid):
    """Bind the pod, as soon as the cluster is there again."""
    async with asyncio.timeout(60):
        while True:
            try:
                await cluster.bind("default", "a", uid, "n1", {})
                return
            except ClusterError:
                await asyncio.sleep(0.05)


async def last_revision(cluster, *keys):
    return max([int((await cluster.get(*key))["metadata"]["resourceVersion"]) for key in keys])


async def test_the_cluster_is_on_the_bus_and_stays_there(nats_server):
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        await cluster.create(NODE)
        async with running(nats_server.url) as context:
            await settled(context, await last_revision(cluster, ("Node", "", "n1")))
            assert isinstance(await stands(context, "cluster.synced"), Synced)
            assert (await stands(context, "cluster.node.n1")).allocatable == {"cpu": 4000, "pods": 10}
            events = await cluster.list("Event")
            assert [(one["reason"], one["involvedObject"]["name"]) for one in events] == [
                ("InvalidDeviceAnnotation", "n1")
            ]

            await cluster.create(POD)
            pod = await cluster.get("Pod", "default", "a")
            subject = f"cluster.pod.{pod['metadata']['uid']}"
            await settled(context, int(pod["metadata"]["resourceVersion"]))
            assert isinstance(await stands(context, subject), PodFact)

            await nats_server.restart(0.1)  # what happens around a loss is caught up with
            await until(lambda: context.connection.connected)
            await bind(cluster, pod["metadata"]["uid"])
            await settled(context, await last_revision(cluster, ("Pod", "default", "a")))
            assert (await stands(context, subject)).node == "n1"
        # While inventory is away a node comes and the pod goes, and an undecodable message is published.
        connection = await connect(nats_server.url, "test")
        publisher = Publisher(connection)
        await publisher.write(Write("cluster.node.rubbish", b"\xc1"))
        await cluster.delete("Pod", "default", "a")
        await cluster.create(NODE | {"metadata": {"name": "n2"}})
        async with running(nats_server.url) as context:
            await settled(context, await last_revision(cluster, ("Node", "", "n2")))
            assert isinstance(await stands(context, subject), Gone)
            assert isinstance(await stands(context, "cluster.node.rubbish"), Gone)
            assert isinstance(await stands(context, "cluster.node.n2"), NodeFact)
        await connection.close()


async def test_a_core_log_can_be_replayed_in_another_process(nats_server, tmp_path, monkeypatch):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(tmp_path))
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        await cluster.create(NODE)
        async with running(nats_server.url) as context:
            await settled(context, await last_revision(cluster, ("Node", "", "n1")))
            for number in range(20):
                await cluster.create(POD | {"metadata": {"name": f"p{number}", "namespace": "default"}})
            await cluster.delete("Pod", "default", "p0")
            await cluster.bind(
                "default", "p1", (await cluster.get("Pod", "default", "p1"))["metadata"]["uid"], "n1", {}
            )
            await settled(context, await last_revision(cluster, ("Pod", "default", "p1")))
            path = context.dump_core_log()
    assert await replayed_elsewhere(path, "deviceshare_inventory.core") > 40


async def test_a_slow_read_back_does_not_delay_others(nats_server, monkeypatch):
    fail_first_write(monkeypatch, Unknown("no answer"), "cluster.node.n1", "cluster.node.n2")
    answer, read_back = asyncio.Event(), shell.read_back

    async def slow(connection, stream, subject):
        if subject == "cluster.node.n1":
            await answer.wait()
        return await read_back(connection, stream, subject)

    monkeypatch.setattr(shell, "read_back", slow)
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        for name in ("n1", "n2"):
            await cluster.create(NODE | {"metadata": {"name": name}})
        async with running(nats_server.url) as context:
            await until(lambda: context.detail().get("unpublished") == 1)
            labels = {"metadata": {"name": "n2", "labels": {"new": "yes"}}}
            await cluster.apply(NODE | labels)
            async with asyncio.timeout(60):
                while (found := await stands(context, "cluster.node.n2")) is None or found.labels != {"new": "yes"}:
                    await asyncio.sleep(0.01)
            assert await stands(context, "cluster.synced") is None
            answer.set()
            await settled(context, await last_revision(cluster, ("Node", "", "n1")))
            assert isinstance(await stands(context, "cluster.synced"), Synced)
