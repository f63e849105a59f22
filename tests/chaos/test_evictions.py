"""Evictions of the simulated API server, by the product's client."""

from typing import Any

import pytest
from deviceshare_cluster.eviction import EvictAnswer, EvictState
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.client import ApiRefusal
from deviceshare_lab.world.apiserver import ApiServer
from deviceshare_lab.world.budgets import SimulatedBudgets
from deviceshare_lab.world.rest import serve
from deviceshare_lab.world.virtual_time import WALL


class Direct(KubeCluster):
    """The product's cluster, whose requests the simulated API server executes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ApiServer(lambda: WALL)
        self.budgets = SimulatedBudgets(self.server)
        self._api = self  # type: ignore[assignment]

    async def request(
        self, method: str, path: str, query: object = (), body: Any = None, content: str = "", accept: str = ""
    ) -> bytes:
        return serve(self.server, method, path, body, "binder")


@pytest.fixture
def cluster() -> Direct:
    return Direct()


def run(cluster: Direct, *names: str, node: str = "n1") -> list[str]:
    """Create running pods with the label that the budget selects; return their uids."""
    uids = []
    for name in names:
        made = cluster.server.create(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
                "spec": {"containers": []} | ({"nodeName": node} if node else {}),
                "status": {"phase": "Running" if node else "Pending"},
            }
        )
        uids.append(str(made["metadata"]["uid"]))
    return uids


def protect(cluster: Direct, name: str, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": name, "namespace": "default"}
    cluster.server.create({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"selector": selector, **spec}})


@pytest.mark.parametrize("spec", [{"minAvailable": 1}, {"maxUnavailable": 1}])
async def test_a_budget_allows_as_many_evictions_as_it_says(cluster: Direct, spec: dict[str, int]) -> None:
    first, second = run(cluster, "a", "b")
    protect(cluster, "budget", **spec)
    for _ in range(2):
        answer = await cluster.evict("default", "a", first, dry_run=True)
        assert answer.state is EvictState.MAY_GO
    assert await cluster.evict("default", "a", first) == EvictAnswer(EvictState.DONE)
    blocked = await cluster.evict("default", "b", second)
    assert blocked.state is EvictState.BLOCKED
    assert blocked.reason == "The disruption budget budget needs 1 healthy pods and has 1 currently"
    pod = cluster.server.get("Pod", "default", "a")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["status"]["conditions"][-1]["type"] == "DisruptionTarget"
    assert (await cluster.evict("default", "a", first)).state is EvictState.DONE


NO_PERMISSION = (
    'pods "a" is forbidden: User "u" cannot create resource "pods/eviction" in API group "" in the namespace "b"'
)


@pytest.mark.parametrize(
    ("status", "text", "state"),
    [
        (403, NO_PERMISSION, EvictState.FORBIDDEN),
        (403, 'admission webhook "w" denied the request: no', EvictState.REFUSED),
        (400, "no", EvictState.REFUSED),
    ],
)
async def test_what_is_not_permitted_differs_from_what_is_refused_for_one_pod(
    cluster: Direct, monkeypatch: pytest.MonkeyPatch, status: int, text: str, state: EvictState
) -> None:
    (uid,) = run(cluster, "a")
    execute = cluster.request

    async def refuse(method: str, path: str, **rest: Any) -> bytes:
        if path.endswith("/eviction"):
            raise ApiRefusal(status, "", text)
        return await execute(method, path, **rest)

    monkeypatch.setattr(cluster, "request", refuse)
    assert await cluster.evict("default", "a", uid) == EvictAnswer(state, text)


async def test_only_the_pod_with_the_uid_is_evicted(cluster: Direct) -> None:
    run(cluster, "a")
    assert (await cluster.evict("default", "a", "another")).state is EvictState.GONE
    assert (await cluster.evict("default", "b", "another")).state is EvictState.GONE
    pod = cluster.server.get("Pod", "default", "a")
    assert "deletionTimestamp" not in pod["metadata"]


async def test_two_budgets_of_one_pod_block(cluster: Direct) -> None:
    (uid,) = run(cluster, "a")
    protect(cluster, "one", minAvailable=0)
    protect(cluster, "two", minAvailable=0)
    assert (await cluster.evict("default", "a", uid)).state is EvictState.BLOCKED


async def test_a_pod_on_no_node_is_gone_at_once(cluster: Direct) -> None:
    (uid,) = run(cluster, "a", node="")
    protect(cluster, "budget", minAvailable=1)
    assert (await cluster.evict("default", "a", uid)).state is EvictState.DONE
    assert cluster.server.get("Pod", "default", "a") is None
