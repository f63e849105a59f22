"""Applying manifests to a local cluster, as ``kubectl apply`` would."""

from typing import Any

import pytest
from deviceshare.model import RequestError
from deviceshare_cluster.interface import BindState, ClusterError
from deviceshare_localcluster import Action, LocalCluster
from support.manifest import manifest


def pod(name: str = "a", image: str = "busybox", **metadata: Any) -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": 1}
    container = {"name": "c", "image": image, "resources": {"limits": limits}}
    return manifest("Pod", {"name": name} | metadata, spec={"containers": [container]})


def node(**annotations: str) -> dict[str, Any]:
    return manifest("Node", {"name": "n", "annotations": annotations}, status={"capacity": {"cpu": "4"}})


def job(name: str, queue: str) -> dict[str, Any]:
    task = {"name": "t", "replicas": 2, "template": {"spec": pod()["spec"]}}
    spec = {"queue": queue, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def queue(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}


async def test_created_unchanged_configured(local: LocalCluster) -> None:
    assert (await local.apply(pod())).action is Action.CREATED
    first = await local.get("Pod", "default", "a")
    assert (await local.apply(pod())).action is Action.UNCHANGED
    assert await local.get("Pod", "default", "a") == first
    assert (await local.apply(pod(labels={"app": "x"}))).action is Action.CONFIGURED
    second = await local.get("Pod", "default", "a")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["labels"] == {"app": "x"}


async def test_binding_status_and_foreign_annotations_stay(local: LocalCluster) -> None:
    await local.apply(pod(annotations={"mine": "1", "old": "1"}))
    uid = (await local.list("Pod"))[0]["metadata"]["uid"]
    assert (await local.bind("default", "a", uid, "gpu-1", {"bound": "1"})).state is BindState.BOUND
    assert (await local.apply(pod(annotations={"mine": "1", "old": "1"}))).action is Action.UNCHANGED
    assert (await local.apply(pod(annotations={"mine": "2"}))).action is Action.CONFIGURED
    read = (await local.list("Pod"))[0]
    assert read["metadata"]["annotations"] == {"mine": "2", "bound": "1"}
    assert read["spec"]["nodeName"] == "gpu-1"
    assert read["status"]["phase"] == "Running"


async def test_a_pods_spec_cannot_be_changed_but_its_image_can(local: LocalCluster) -> None:
    await local.apply(pod())
    assert (await local.apply(pod(image="other"))).action is Action.CONFIGURED
    changed = pod(image="other")
    changed["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": 2}
    with pytest.raises(RequestError) as caught:
        await local.apply(changed)
    problem = caught.value.problem
    assert problem.subject == "Pod default/a"
    assert problem.field == "spec.containers[0].resources.limits[volcano.sh/vgpu-number]"
    assert problem.value == "2"
    assert "delete it first" in problem.expected
    moved = pod(image="other")
    moved["spec"]["nodeName"] = "n"
    with pytest.raises(RequestError, match="nodeName"):
        await local.apply(moved)


async def test_a_manifest_can_have_an_ended_pod(local: LocalCluster) -> None:
    await local.apply(pod())
    uid = (await local.list("Pod"))[0]["metadata"]["uid"]
    await local.bind("default", "a", uid, "n", {})
    assert (await local.apply(pod() | {"status": {"phase": "Succeeded"}})).action is Action.CONFIGURED
    status = (await local.list("Pod"))[0]["status"]
    assert status["phase"] == "Succeeded"
    assert status["conditions"]


async def test_a_node_takes_new_annotations_and_loses_those_that_its_manifest_drops(local: LocalCluster) -> None:
    await local.apply(node(register="1", taken="1"))
    await local.apply(node(register="2"))
    (read,) = await local.list("Node")
    assert read["metadata"]["annotations"] == {"register": "2"}
    changed = node(register="2") | {"status": {"capacity": {"cpu": "8"}}}
    assert (await local.apply(changed)).action is Action.CONFIGURED
    assert (await local.list("Node"))[0]["status"]["allocatable"] == {"cpu": "8"}


async def test_of_a_job_only_the_size_changes(local: LocalCluster) -> None:
    await local.apply(job("j", "default"))
    grown = job("j", "default")
    grown["spec"]["tasks"][0]["replicas"] = 5
    assert (await local.apply(grown)).action is Action.CONFIGURED
    moved = job("j", "other")
    with pytest.raises(RequestError, match=r"Job default/j: spec\.queue: 'other'"):
        await local.apply(moved)


async def test_create_refuses_existing_objects(local: LocalCluster) -> None:
    await local.create(pod())
    with pytest.raises(RequestError, match=r"Pod default/a: metadata\.name"):
        await local.create(pod())
    assert (await local.delete("Pod", "", "a")).action is Action.DELETED
    assert (await local.delete("Pod", "", "a")).action is Action.ABSENT
    assert (await local.create(pod())).action is Action.CREATED


async def test_a_load_continues_after_refused_objects_and_keeps_the_order(local: LocalCluster) -> None:
    bad = pod("bad")
    bad["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": 2.5}
    given = [
        pod("z"),
        bad,
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}},
        {},
        node(),
        pod("z"),
    ]
    results = await local.load(given)
    assert [(result.action, result.kind, result.name) for result in results] == [
        (Action.CREATED, "Pod", "z"),
        (Action.REFUSED, "Pod", "bad"),
        (Action.REFUSED, "Deployment", "d"),
        (Action.REFUSED, "None", ""),
        (Action.CREATED, "Node", "n"),
        (Action.UNCHANGED, "Pod", "z"),
    ]
    assert str(results[1].problem).startswith(
        "Pod default/bad: spec.containers[0].resources.limits[volcano.sh/vgpu-number]: '2.5' is not valid: expected"
    )
    assert [one["metadata"]["name"] for one in await local.list("Pod")] == ["z"]


async def test_a_priority_class_of_the_same_load_counts(local: LocalCluster) -> None:
    named = pod()
    named["spec"]["priorityClassName"] = "high"
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    assert (await local.load([named]))[0].action is Action.REFUSED
    assert [result.action for result in await local.load([named, high])] == [Action.CREATED] * 2
    assert (await local.list("Pod"))[0]["spec"]["priority"] == 7
    with pytest.raises(RequestError, match="value"):
        await local.apply(high | {"value": 8})


async def test_a_queue_that_is_missing_is_made_with_a_warning_unless_it_comes_along(local: LocalCluster) -> None:
    assert [one["metadata"]["name"] for one in await local.list("Queue")] == ["default"]
    first, second, _, third = await local.load(
        [job("a", "training"), job("b", "training"), queue("own"), job("c", "own")]
    )
    ((field, text),) = first.warnings
    assert field == "spec.queue"
    assert text == "Job default/a: Queue training did not exist: created with weight 1; Volcano would refuse the Job"
    assert second.warnings == ()
    assert third.warnings == ()
    queues = {one["metadata"]["name"]: one["spec"]["weight"] for one in await local.list("Queue")}
    assert queues == {"default": 1, "training": 1, "own": 1}


async def test_setup_twice_changes_nothing(local: LocalCluster) -> None:
    before = await local.list("Queue")
    await local.setup()
    assert await local.list("Queue") == before


async def test_a_cluster_without_set_up_is_reported(nats_url: str) -> None:
    async with LocalCluster(nats_url) as cluster:
        with pytest.raises(ClusterError, match="not set up"):
            await cluster.list("Pod")
        with pytest.raises(ClusterError):
            await cluster.get("Pod", "default", "a")
        with pytest.raises(ClusterError):
            await cluster.apply(queue("q"))
