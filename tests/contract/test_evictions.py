"""The contract of every cluster: evictions with dry runs, preconditions and budgets, and nominated nodes.

On the real API server no controller writes the status of budgets, so the tests write it on both.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from deviceshare_cluster.eviction import EvictState
from support.apiserver import ApiServer
from support.contract import created, pod, revision_of
from support.kube_cluster import CleanCluster

DELAY = {"pod-delete.stage.kwok.x-k8s.io/delay": "1h"}
"""Pods of the local cluster with it use their whole grace period, as pods without a kubelet always do."""
GRACE = 600


async def running(cluster: Any, name: str, labels: Mapping[str, str] | None = None, ready: str = "True") -> str:
    """Create a pod that runs; return its uid."""
    made = pod(name, terminationGracePeriodSeconds=GRACE, nodeName="gpu-1")
    made["metadata"] |= {"annotations": DELAY, "labels": dict(labels or {})}
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    await cluster.create(made)
    return str((await cluster.get("Pod", "default", name))["metadata"]["uid"])


async def budget(cluster: Any, name: str, allowed: int, *, healthy: int = 1, desired: int = 1, **more: Any) -> None:
    """Create a budget of the pods with ``app: web`` and this status."""
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
    }
    await cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": desired, "selector": {"matchLabels": {"app": "web"}}, **more},
            "status": status,
        }
    )


async def budget_status(cluster: Any, name: str) -> dict[str, Any]:
    status: dict[str, Any] = (await cluster.get("PodDisruptionBudget", "default", name))["status"]
    return status


async def deletion(cluster: Any, name: str) -> Any:
    """Return the grace period of a pod that is being deleted, None if it is not, 'gone' if there is none."""
    found = await cluster.get("Pod", "default", name)
    return "gone" if found is None else found["metadata"].get("deletionGracePeriodSeconds")


async def test_a_dry_run_answers_and_writes_nothing(cluster: Any) -> None:
    uid = await running(cluster, "a", {"app": "web"})
    await budget(cluster, "b", 1)
    before = await revision_of(cluster, "a")
    for _ in range(2):
        assert (await cluster.evict("default", "a", uid, dry_run=True)).state is EvictState.MAY_GO
    assert await revision_of(cluster, "a") == before
    assert (await budget_status(cluster, "b"))["disruptionsAllowed"] == 1


async def test_an_evicted_pod_has_its_grace_period_and_says_why_it_ends(cluster: Any) -> None:
    uid = await running(cluster, "a")
    assert (await cluster.evict("default", "a", uid)).state is EvictState.DONE
    found = await cluster.get("Pod", "default", "a")
    assert found["metadata"]["deletionGracePeriodSeconds"] == GRACE
    assert found["metadata"]["deletionTimestamp"]
    (condition,) = [one for one in found["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"


async def test_an_eviction_may_have_another_grace_period(cluster: Any) -> None:
    uid = await running(cluster, "a")
    assert (await cluster.evict("default", "a", uid, grace=7)).state is EvictState.DONE
    assert await deletion(cluster, "a") == 7


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_pod_that_is_being_deleted_may_be_evicted_again(cluster: Any, dry_run: bool) -> None:
    uid = await running(cluster, "a", {"app": "web"})
    await budget(cluster, "b", 1)
    await cluster.evict("default", "a", uid)
    again = await cluster.evict("default", "a", uid, dry_run=dry_run)
    assert again.state is (EvictState.MAY_GO if dry_run else EvictState.DONE)
    assert await deletion(cluster, "a") == GRACE
    assert (await budget_status(cluster, "b"))["disruptionsAllowed"] == 0, "counted once"


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_pod_that_is_gone_or_another_is_not_evicted(cluster: Any, dry_run: bool) -> None:
    await running(cluster, "a")
    assert (await cluster.evict("default", "a", "an-older-uid", dry_run=dry_run)).state is EvictState.GONE
    assert (await cluster.evict("default", "b", "an-older-uid", dry_run=dry_run)).state is EvictState.GONE
    assert await deletion(cluster, "a") is None


@pytest.mark.parametrize("dry_run", [True, False])
async def test_another_pod_of_the_name_that_a_budget_protects_is_gone_as_well(cluster: Any, dry_run: bool) -> None:
    await running(cluster, "a", {"app": "web"})
    await budget(cluster, "b", 0)
    assert (await cluster.evict("default", "a", "an-older-uid", dry_run=dry_run)).state is EvictState.GONE


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_budget_blocks_in_the_words_of_the_api_server(cluster: Any, dry_run: bool) -> None:
    uid = await running(cluster, "a", {"app": "web"})
    await budget(cluster, "b", 0, healthy=2, desired=2)
    answer = await cluster.evict("default", "a", uid, dry_run=dry_run)
    assert answer == (EvictState.BLOCKED, "The disruption budget b needs 2 healthy pods and has 2 currently")
    assert await deletion(cluster, "a") is None


async def test_an_eviction_uses_the_budget(cluster: Any) -> None:
    uids = [await running(cluster, name, {"app": "web"}) for name in ("a", "b")]
    await budget(cluster, "b", 1, healthy=2)
    assert (await cluster.evict("default", "a", uids[0])).state is EvictState.DONE
    status = await budget_status(cluster, "b")
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]
    (condition,) = [one for one in status["conditions"] if one["type"] == "DisruptionAllowed"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    assert (await cluster.evict("default", "b", uids[1])).state is EvictState.BLOCKED
    assert await deletion(cluster, "b") is None


async def test_a_budget_of_other_pods_does_not_count(cluster: Any) -> None:
    uid = await running(cluster, "a", {"app": "other"})
    await budget(cluster, "b", 0)
    assert (await cluster.evict("default", "a", uid)).state is EvictState.DONE


async def test_two_budgets_of_one_pod_block(cluster: Any) -> None:
    uid = await running(cluster, "a", {"app": "web"})
    await budget(cluster, "b", 1)
    await budget(cluster, "c", 1)
    answer = await cluster.evict("default", "a", uid, dry_run=True)
    assert answer.state is EvictState.BLOCKED
    assert answer.reason.startswith("This pod has more than one PodDisruptionBudget")


async def test_a_budget_that_its_controller_has_not_seen_blocks(cluster: Any) -> None:
    uid = await running(cluster, "a", {"app": "web"})
    await cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    answer = await cluster.evict("default", "a", uid, dry_run=True)
    assert answer == (EvictState.BLOCKED, "The disruption budget b is still being processed by the server.")


@pytest.mark.parametrize(
    ("policy", "healthy", "expected"),
    [
        (None, 0, EvictState.BLOCKED),
        (None, 1, EvictState.DONE),
        ("IfHealthyBudget", 0, EvictState.BLOCKED),
        ("AlwaysAllow", 0, EvictState.DONE),
    ],
)
async def test_a_pod_that_is_not_ready_goes_if_the_others_are_enough(
    cluster: Any, policy: str | None, healthy: int, expected: EvictState
) -> None:
    uid = await running(cluster, "a", {"app": "web"}, ready="False")
    more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    await budget(cluster, "b", 0, healthy=healthy, **more)
    assert (await cluster.evict("default", "a", uid)).state is expected


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_pod_on_no_node_is_gone_at_once_whatever_budgets_say(cluster: Any, dry_run: bool) -> None:
    await cluster.create(pod("a") | {"metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}}})
    uid = (await cluster.get("Pod", "default", "a"))["metadata"]["uid"]
    await budget(cluster, "b", 0)
    answer = await cluster.evict("default", "a", uid, dry_run=dry_run)
    assert answer.state is (EvictState.MAY_GO if dry_run else EvictState.DONE)
    assert await deletion(cluster, "a") == (None if dry_run else "gone")


async def test_a_nominated_node_is_written_once_and_withdrawn_only_if_it_is_this_one(cluster: Any) -> None:
    uid = await created(cluster, "a")

    async def nominated() -> Any:
        return (await cluster.get("Pod", "default", "a"))["status"].get("nominatedNodeName")

    await cluster.nominate("default", "a", uid, "gpu-1")
    assert await nominated() == "gpu-1"
    before = await revision_of(cluster, "a")
    await cluster.nominate("default", "a", uid, "gpu-1")
    await cluster.nominate("default", "a", uid, "gpu-2", withdraw=True)
    await cluster.nominate("default", "a", "another-uid", "gpu-2")
    await cluster.nominate("default", "missing", uid, "gpu-2")
    assert await revision_of(cluster, "a") == before
    await cluster.nominate("default", "a", uid, "gpu-1", withdraw=True)
    assert await nominated() is None
    await cluster.bind("default", "a", uid, "gpu-1", {})
    await cluster.nominate("default", "a", uid, "gpu-2")
    assert await nominated() is None


@pytest.mark.system
async def test_in_a_namespace_that_is_deleted_pods_go_when_they_are_deleted(apiserver: ApiServer) -> None:
    """The API server refuses all evictions there, also of pods that are terminating."""
    name = "deleted-namespace"
    namespaces = "/api/v1/namespaces"
    apiserver.request("POST", namespaces, {"metadata": {"name": name}})
    async with CleanCluster(apiserver) as cluster:
        made = pod("a", terminationGracePeriodSeconds=GRACE, nodeName="gpu-1")
        made["metadata"]["namespace"] = name
        await cluster.create(made)
        uid = (await cluster.get("Pod", name, "a"))["metadata"]["uid"]
        apiserver.request("DELETE", f"{namespaces}/{name}")
        for dry_run in (True, False):
            answer = await cluster.evict(name, "a", uid, dry_run=dry_run)
            assert answer.state is EvictState.BLOCKED
            assert answer.reason.endswith(f"in namespace {name} because it is being terminated")
        apiserver.request("DELETE", f"{namespaces}/{name}/pods/a")
        assert (await cluster.evict(name, "a", uid, dry_run=True)).state is EvictState.MAY_GO
        assert (await cluster.evict(name, "a", uid)).state is EvictState.DONE
        assert (await cluster.get("Pod", name, "a"))["metadata"]["deletionGracePeriodSeconds"] == GRACE
    apiserver.request("PUT", f"{namespaces}/{name}/finalize", {"metadata": {"name": name}, "spec": {"finalizers": []}})
