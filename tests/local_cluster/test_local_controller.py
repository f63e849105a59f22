"""The controllers of the local cluster, running: pods follow their Job."""

from typing import Any

from deviceshare_cluster.interface import BindState, Change
from deviceshare_localcluster import Controller, LocalCluster
from support.beside import beside
from support.controlled import controlled
from support.manifest import manifest
from support.waiting import until


def job(name: str = "train", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"volcano.sh/vgpu-number": 1}}}
    task = {"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return manifest("Job", {"name": name}, spec={"tasks": [task], "minAvailable": 1} | spec)


async def names(cluster: LocalCluster, kind: str = "Pod") -> set[str]:
    return {one["metadata"]["name"] for one in await cluster.list(kind)}


async def until_pods(cluster: LocalCluster, *expected: str) -> None:
    try:
        await until(lambda: names(cluster), lambda pods: pods == set(expected))
    except AssertionError:
        assert await names(cluster) == set(expected)
        raise


async def test_a_job_gets_its_pods_and_the_objects_of_its_plugins(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(plugins={"svc": [], "ssh": [], "env": []}))
        await until_pods(local, "train-w-0", "train-w-1", "train-w-2")
        (stored,) = await local.list("Job")
        (group,) = await local.list("PodGroup")
        assert group["metadata"]["name"] == f"train-{stored['metadata']['uid']}"
        assert group["spec"]["minMember"] == 1
        assert await names(local, "ConfigMap") == {"train-svc"}
        assert await names(local, "Secret") == {"train-ssh"}
        (first, *_) = sorted(await local.list("Pod"), key=lambda pod: str(pod["metadata"]["name"]))
        assert first["spec"]["schedulerName"] == "volcano"
        assert first["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
        assert first["status"] == {"phase": "Pending"}


async def test_pods_and_group_go_with_their_job(local: LocalCluster) -> None:
    async with controlled(local):
        await local.load([job("a", plugins={"svc": []}), job("b", 1)])
        await until_pods(local, "a-w-0", "a-w-1", "a-w-2", "b-w-0")
        await local.delete("Job", "default", "a")
        await until_pods(local, "b-w-0")

        async def gone() -> bool:
            return len(await local.list("PodGroup")) == 1 and not await local.list("ConfigMap")

        await until(gone)


async def test_a_job_deleted_and_made_again_gets_new_pods(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(replicas=2))
        await until_pods(local, "train-w-0", "train-w-1")
        old = {pod["metadata"]["uid"] for pod in await local.list("Pod")}
        await local.delete("Job", "default", "train")
        await local.apply(job(replicas=2))

        async def renewed() -> bool:
            pods = await local.list("Pod")
            return len(pods) == 2 and not {pod["metadata"]["uid"] for pod in pods} & old

        await until(renewed)
        (group,) = await local.list("PodGroup")
        (stored,) = await local.list("Job")
        assert group["metadata"]["ownerReferences"][0]["uid"] == stored["metadata"]["uid"]


async def test_a_job_grows_and_shrinks_and_its_bound_pods_stay_as_they_are(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(replicas=1))
        await until_pods(local, "train-w-0")
        (pod,) = await local.list("Pod")
        bound = await local.bind("default", "train-w-0", pod["metadata"]["uid"], "n", {"mine": "1"})
        assert bound.state is BindState.BOUND
        await local.apply(job(replicas=3, minAvailable=2))
        await until_pods(local, "train-w-0", "train-w-1", "train-w-2")
        await until(
            lambda: local.list("PodGroup"), lambda groups: [group["spec"]["minMember"] for group in groups] == [2]
        )
        await local.apply(job(replicas=1))
        await until_pods(local, "train-w-0")
        (still,) = await local.list("Pod")
        assert still["metadata"]["uid"] == pod["metadata"]["uid"]
        assert still["spec"]["nodeName"] == "n"
        assert still["metadata"]["annotations"]["mine"] == "1"


async def test_a_pod_that_is_deleted_is_made_again(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(replicas=2))
        await until_pods(local, "train-w-0", "train-w-1")
        before = {pod["metadata"]["uid"] for pod in await local.list("Pod")}
        await local.delete("Pod", "default", "train-w-1")

        async def renewed() -> bool:
            now = {pod["metadata"]["uid"] for pod in await local.list("Pod")}
            return len(now) == 2 and len(now & before) == 1

        await until(renewed)


async def test_changes_during_its_absence_are_handled_after_the_restart(local: LocalCluster) -> None:
    async with controlled(local):
        await local.load([job("a", 2), job("b", 2)])
        await until_pods(local, "a-w-0", "a-w-1", "b-w-0", "b-w-1")
    await local.delete("Job", "default", "a")
    await local.delete("Pod", "default", "b-w-0")
    await local.apply(job("c", 1))
    before = {pod["metadata"]["uid"] for pod in await local.list("Pod") if pod["metadata"]["name"] == "b-w-1"}
    async with controlled(local):
        await until_pods(local, "b-w-0", "b-w-1", "c-w-0")
    after = {pod["metadata"]["uid"] for pod in await local.list("Pod")}
    assert before <= after, "what was in order was left alone"


async def test_owners_that_are_none_of_its_business_are_left_alone(local: LocalCluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}
    pod = manifest(
        "Pod", {"name": "replica", "ownerReferences": [owner]}, spec={"containers": [{"name": "c", "image": "i"}]}
    )
    async with controlled(local):
        await local.load([pod, job("a", 1)])
        await until_pods(local, "replica", "a-w-0")
        await local.delete("Job", "default", "a")
        await until_pods(local, "replica")


async def test_a_pod_of_the_name_without_an_owner_is_not_adopted(local: LocalCluster) -> None:
    stray = manifest("Pod", {"name": "train-w-0"}, spec={"containers": [{"name": "own", "image": "own"}]})
    await local.create(stray)
    async with controlled(local):
        await local.apply(job(replicas=2))
        await until_pods(local, "train-w-0", "train-w-1")
    read = await local.get("Pod", "default", "train-w-0")
    assert read["spec"]["containers"][0]["name"] == "own"
    assert "ownerReferences" not in read["metadata"]


async def test_two_controllers_at_once_do_no_harm(local: LocalCluster) -> None:
    async with controlled(local), controlled(local):
        await local.load([job(f"j{number}", 10) for number in range(5)])
        await until(lambda: names(local), lambda pods: len(pods) == 50)
        await local.delete("Job", "default", "j0")
        await until(lambda: names(local), lambda pods: len(pods) == 40)


async def test_thousands_of_pods_come_in_seconds(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(replicas=3000, plugins={"env": [], "svc": []}))
        await until(lambda: local.list("Pod"), lambda pods: len(pods) == 3000)


async def test_others_observe_what_the_controllers_see(local: LocalCluster) -> None:
    controller = Controller(local)
    seen: list[tuple[str, str]] = []
    controller.observers.append(
        lambda batch: seen.extend((each.kind, each.name) for each in batch if isinstance(each, Change))
    )
    async with beside(controller.run()):
        await local.apply(job(replicas=2))
        await until(lambda: {("Job", "train"), ("Pod", "train-w-0"), ("Pod", "train-w-1")} <= set(seen))
