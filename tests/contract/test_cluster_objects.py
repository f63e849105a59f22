"""The contract of every cluster: objects are created, read, listed and watched."""

import asyncio
import json
from typing import Any

import pytest
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed
from support.contract import created, listed, node, until
from support.manifest import manifest


async def test_a_created_object_can_be_read(cluster: Any) -> None:
    uid = await created(cluster, "a")
    assert uid
    assert await cluster.get("Pod", "default", "b") is None
    assert await cluster.get("Pod", "other", "a") is None
    assert [one["metadata"]["name"] for one in await cluster.list("Pod")] == ["a"]
    assert await cluster.list("Node") == []


async def test_revisions_identify_objects_and_their_versions(cluster: Any) -> None:
    await created(cluster, "a")
    await created(cluster, "b")
    await cluster.create(node("n1"))
    await cluster.delete("Pod", "default", "b")
    there = await cluster.get("Pod", "default", "a")
    async with asyncio.timeout(60):  # it may be a moment ago
        while set((revisions := await cluster.revisions("Pod")).found) != {("default", "a")}:
            await asyncio.sleep(0.05)
    assert revisions.found["default", "a"] == int(there["metadata"]["resourceVersion"])
    assert revisions.at > revisions.found["default", "a"]
    assert set((await cluster.revisions("Node")).found) == {("", "n1")}


async def test_an_object_has_the_defaults_of_the_api_server(cluster: Any) -> None:
    await created(cluster, "a")
    read = await cluster.get("Pod", "default", "a")
    assert read["apiVersion"] == "v1"
    assert read["kind"] == "Pod"
    assert read["metadata"]["creationTimestamp"].endswith("Z")
    assert int(read["metadata"]["resourceVersion"]) > 0
    assert read["spec"]["restartPolicy"] == "Always"
    assert read["spec"]["priority"] == 0
    assert read["status"]["phase"] == "Pending"


async def test_a_watch_lists_reports_the_end_of_the_list_and_follows(cluster: Any) -> None:
    await created(cluster, "a")
    await cluster.create(node("gpu-1.example.com"))
    watch = cluster.watch(["Pod", "Node"])
    first = await until(watch, listed)
    names = {(item.kind, item.namespace, item.name) for item in first if isinstance(item, Change)}
    assert names == {("Pod", "default", "a"), ("Node", "", "gpu-1.example.com")}
    assert isinstance(first[-1], Listed)
    assert first[-1].revision >= max(item.revision for item in first if isinstance(item, Change))

    await created(cluster, "b")
    (change,) = await until(watch, lambda item: item.name == "b")
    assert isinstance(change, Change)
    assert change.type is ChangeType.APPLIED
    raw = json.loads(change.raw)
    assert raw == await cluster.get("Pod", "default", "b")
    assert raw["metadata"]["resourceVersion"] == str(change.revision)
    await watch.aclose()


async def test_an_empty_cluster_is_listed_too(cluster: Any) -> None:
    watch = cluster.watch(["Pod"])
    assert [type(item) for item in await until(watch, listed)] == [Listed]
    await watch.aclose()


async def test_other_kinds_are_not_delivered(cluster: Any) -> None:
    watch = cluster.watch(["Pod"])
    await cluster.create(node("n"))
    await created(cluster, "a")
    seen = await until(watch, lambda item: isinstance(item, Change) and item.name == "a")
    assert {item.kind for item in seen if isinstance(item, Change)} == {"Pod"}
    await watch.aclose()


async def test_a_deletion_is_seen_and_the_name_can_be_used_again(cluster: Any) -> None:
    old = await created(cluster, "a")
    watch = cluster.watch(["Pod"])
    await until(watch, listed)
    await cluster.delete("Pod", "default", "a")
    # A cluster may show that it is terminating before it is gone.
    gone = (await until(watch, lambda item: isinstance(item, Change) and item.type is ChangeType.DELETED))[-1]
    assert isinstance(gone, Change)
    assert (gone.namespace, gone.name) == ("default", "a")
    assert await cluster.get("Pod", "default", "a") is None
    assert await cluster.list("Pod") == []

    new = await created(cluster, "a")
    again = (await until(watch, lambda item: isinstance(item, Change)))[-1]
    assert isinstance(again, Change)
    assert again.type is ChangeType.APPLIED
    assert again.revision > gone.revision
    assert json.loads(again.raw)["metadata"]["uid"] == new != old
    await watch.aclose()


async def test_deleted_objects_are_not_listed(cluster: Any) -> None:
    await created(cluster, "a")
    await created(cluster, "b")
    await cluster.delete("Pod", "default", "a")
    watch = cluster.watch(["Pod"])
    seen = await until(watch, listed)
    alive = [item.name for item in seen if isinstance(item, Change) and item.type is ChangeType.APPLIED]
    assert alive == ["b"]
    await watch.aclose()


async def test_an_object_is_created_unless_it_exists(cluster: Any, volcano_kinds: None) -> None:
    def queue(weight: int) -> dict[str, Any]:
        metadata = {"name": "ensured"}
        return manifest("Queue", metadata, spec={"weight": weight})

    await cluster.ensure(queue(3))
    made = await cluster.get("Queue", "", "ensured")
    assert made["spec"]["weight"] == 3
    await cluster.ensure(queue(5))
    assert await cluster.get("Queue", "", "ensured") == made
    await cluster.delete("Queue", "", "ensured")


async def test_a_refused_creation_raises_a_final_error(cluster: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no-containers", "namespace": "default"}, "spec": {}}
    with pytest.raises(ClusterError, match="no-containers") as raised:
        await cluster.ensure(pod)
    assert raised.value.final
