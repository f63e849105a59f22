"""Evictions and deletions of pods in a running local cluster: budgets, grace periods, nodes that are not ready."""

from typing import Any

from deviceshare_cluster.eviction import EvictState
from deviceshare_localcluster import LocalCluster
from deviceshare_localcluster.writer import Action
from support.controlled import controlled
from support.manifest import manifest
from support.waiting import until

DELAY = "pod-delete.stage.kwok.x-k8s.io/delay"


def deployment(replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return manifest(
        "Deployment",
        {"name": "web"},
        spec={"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    )


def budget(**spec: Any) -> dict[str, Any]:
    return manifest("PodDisruptionBudget", {"name": "b"}, spec={"selector": {"matchLabels": {"app": "web"}}, **spec})


def pod(name: str, node: str = "n1", grace: int | None = None, **annotations: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return manifest("Pod", {"name": name, "annotations": annotations}, spec=spec, status={"phase": "Running"})


def node(name: str, ready: str = "True") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions}}


async def status(local: LocalCluster) -> dict[str, Any]:
    found = await local.get("PodDisruptionBudget", "default", "b")
    assert found is not None
    return dict(found.get("status") or {})


async def until_allowed(local: LocalCluster, allowed: int, healthy: int) -> None:
    async def there() -> bool:
        found = await status(local)
        return (found.get("disruptionsAllowed"), found.get("currentHealthy")) == (allowed, healthy)

    await until(there)


async def until_gone(local: LocalCluster, *names: str) -> None:
    await until(lambda: local.list("Pod"), lambda pods: not {one["metadata"]["name"] for one in pods} & set(names))


async def test_the_controller_counts_the_pods_of_a_budget(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(budget(maxUnavailable=1))
        await local.apply(deployment(3))
        await until(lambda: local.list("Pod"), lambda pods: len(pods) == 3)
        await until_allowed(local, 0, 0)
        uids = {}
        for one in await local.list("Pod"):
            name, uid = one["metadata"]["name"], one["metadata"]["uid"]
            uids[name] = uid
            await local.bind("default", name, uid, "n1", {})
        await until_allowed(local, 1, 3)
        assert (await status(local))["expectedPods"] == 3
        first, second, third = sorted(uids)
        assert (await local.evict("default", first, uids[first])).state is EvictState.DONE
        assert (await local.evict("default", second, uids[second])).state is EvictState.BLOCKED
        # The Deployment makes another pod, which runs elsewhere; then one more may go.
        await until_allowed(local, 0, 2)
        (new,) = [one for one in await local.list("Pod") if one["metadata"]["name"] not in (second, third)]
        await local.bind("default", new["metadata"]["name"], new["metadata"]["uid"], "n2", {})
        await until_allowed(local, 1, 3)
        assert (await local.evict("default", second, uids[second])).state is EvictState.DONE


async def test_a_changed_budget_is_counted_again(local: LocalCluster) -> None:
    async with controlled(local):
        await local.load([pod("a") | {"metadata": {"name": "a", "labels": {"app": "web"}}}])
        await local.apply(budget(minAvailable=1))
        await until_allowed(local, 0, 1)
        await local.apply(budget(minAvailable=0))
        await until_allowed(local, 1, 1)
        found = await local.get("PodDisruptionBudget", "default", "b")
        assert found["metadata"]["generation"] == found["status"]["observedGeneration"] == 2


async def test_a_deleted_pod_ends_after_its_delay_within_its_grace_period(local: LocalCluster) -> None:
    async with controlled(local):
        await local.load(
            [
                node("n1"),
                pod("at-once"),
                pod("short-delay", grace=3600, **{DELAY: "1s"}),
                pod("short-grace", grace=1, **{DELAY: "1h"}),
                pod("long", grace=3600, **{DELAY: "1h"}),
            ]
        )
        for name in ("at-once", "short-delay", "short-grace", "long"):
            assert (await local.delete("Pod", "", name)).action is Action.DELETED
        assert await local.get("Pod", "", "at-once") is None
        await until_gone(local, "short-delay", "short-grace")
        long = await local.get("Pod", "", "long")
        assert long["metadata"]["deletionGracePeriodSeconds"] == 3600
        assert (await local.delete("Pod", "", "long", grace=0)).action is Action.DELETED
        assert await local.get("Pod", "", "long") is None


async def test_a_pod_on_a_node_that_is_not_ready_stays_until_it_is(local: LocalCluster) -> None:
    async with controlled(local):
        await local.load([node("n1", "False"), node("n2", "Unknown"), pod("a", grace=1), pod("b", "n2", grace=1)])
        for name in ("a", "b"):
            await local.delete("Pod", "", name)
        # A pod of a ready node that is deleted later is gone earlier: the times of the others are over by then.
        await local.load([node("n3"), pod("c", "n3", grace=3, **{DELAY: "1h"})])
        await local.delete("Pod", "", "c")
        await until_gone(local, "c")
        assert {one["metadata"]["name"] for one in await local.list("Pod")} == {"a", "b"}
        await local.apply(node("n1"))
        await until_gone(local, "a")
        await local.delete("Node", "", "n2")
        await until_gone(local, "b")


async def test_a_terminating_pod_ends_after_a_restart_of_the_controllers(local: LocalCluster) -> None:
    await local.load([node("n1"), pod("a", grace=1, **{DELAY: "1h"})])
    await local.delete("Pod", "", "a")
    assert await local.get("Pod", "", "a") is not None
    async with controlled(local):
        await until_gone(local, "a")
