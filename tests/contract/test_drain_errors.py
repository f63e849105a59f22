"""`deviceshare drain card` when the API server refuses, fails, or answers late."""

import asyncio
from typing import Any

import pytest
from deviceshare_cli import drain
from deviceshare_cluster.eviction import EvictAnswer, EvictState
from deviceshare_cluster.interface import ClusterError
from support.draining import budget, names, pod, run, run_until

pytestmark = pytest.mark.usefixtures("drained_nodes")


async def test_pods_are_read_again_after_an_error(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.create(pod("a", "GPU-0"))
    list_all, fails = cluster.list, 1

    async def failing(kind: str) -> Any:
        nonlocal fails
        if kind == "Pod" and fails:
            fails -= 1
            raise ClusterError("no connection", final=False)
        return await list_all(kind)

    monkeypatch.setattr(cluster, "list", failing)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert "pods cannot be listed: no connection; retry in 0.01 s" in capsys.readouterr().out
    assert await names(cluster) == []
    await cluster.create(pod("b", "GPU-0"))
    fails = 100
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert "error: gpu-1/GPU-0 not drained: 0 pods evicted" in capsys.readouterr().err


async def test_a_pod_that_the_api_server_refuses_to_evict_fails_alone(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.create(pod("a", "GPU-0"))
    await cluster.create(pod("b", "GPU-0"))
    evict = cluster.evict

    async def with_refusal(namespace: str, name: str, uid: str, **options: Any) -> EvictAnswer:
        if name == "a":
            return EvictAnswer(EvictState.REFUSED, "forbidden")
        answer: EvictAnswer = await evict(namespace, name, uid, **options)
        return answer

    monkeypatch.setattr(cluster, "evict", with_refusal)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert await names(cluster) == ["a"]
    assert capsys.readouterr().err.splitlines() == [
        "error: pod default/a not evicted: forbidden",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted",
    ]


async def test_a_pod_with_two_budgets_fails_at_once(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await cluster.create(pod("web-0", "GPU-0"))
    for name in ("b", "c"):
        await budget(cluster, "web", expected=2, name=name)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: pod default/web-0 not evicted: This pod has more than one PodDisruptionBudget, "
        "which the eviction subresource does not support.",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted",
    ]


async def test_a_lasting_error_of_the_api_server_ends_the_drain(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "web-0"):
        await cluster.create(pod(name, "GPU-0"))
    evict, asked = cluster.evict, 0

    async def failing(namespace: str, name: str, uid: str, **options: Any) -> EvictAnswer:
        nonlocal asked
        asked += name == "a"
        if name == "a":
            if asked == 5:
                return EvictAnswer(EvictState.BLOCKED, "not now")
            raise ClusterError("the API server answered 500")
        answer: EvictAnswer = await evict(namespace, name, uid)
        return answer

    monkeypatch.setattr(cluster, "evict", failing)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert asked == 5 + drain.MAX_RETRIES + 1, "in a row"
    assert await names(cluster) == ["a"]
    assert capsys.readouterr().err.splitlines() == [
        "error: pod default/a not evicted: the API server answered 500",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted",
    ]


async def test_a_pod_that_is_gone_before_its_eviction_is_not_counted(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        await cluster.create(pod(name, "GPU-0"))
    evict = cluster.evict

    async def late(namespace: str, name: str, uid: str, **options: Any) -> EvictAnswer:
        if name == "a":
            await cluster.delete("Pod", namespace, name)
            await _until_gone(cluster, name)
        answer: EvictAnswer = await evict(namespace, name, uid, **options)
        return answer

    monkeypatch.setattr(cluster, "evict", late)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "pod default/a is gone" in lines
    assert lines[-1] == "gpu-1/GPU-0 drained: 1 pod evicted"


async def _until_gone(cluster: Any, name: str) -> None:
    while await cluster.get("Pod", "default", name) is not None:
        await asyncio.sleep(0.01)


async def test_after_the_timeout_earlier_refusals_are_named_as_well(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.create(pod("a", "GPU-0"))
    await cluster.create(pod("b", "GPU-0"))

    async def failing(namespace: str, name: str, uid: str, **options: Any) -> EvictAnswer:
        raise ClusterError("no connection" if name == "a" else "not allowed", final=name == "b")

    monkeypatch.setattr(cluster, "evict", failing)
    status, errors = await run_until(
        lambda printed: "default/a not evicted: no connection; retry" in printed, cluster, capsys, monkeypatch
    )
    assert status == 1
    assert errors == [
        "error: pod default/b not evicted: not allowed",
        "error: the timeout of 600 s is over",
        "error: pod default/a is still there: not evicted: no connection",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted",
    ]
