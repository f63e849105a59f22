"""`deviceshare drain card` in every kind of cluster: the Eviction API, budgets, timeouts, and what is left."""

import asyncio
from threading import Event
from typing import Any

import pytest
from deviceshare_cli import drain
from deviceshare_cli.card_holders import CardHolders, SystemView
from deviceshare_cli.errors import CommandError
from deviceshare_cluster.eviction import EvictAnswer
from support.draining import budget, cordoned, names, pod, run, run_until, unread

pytestmark = pytest.mark.usefixtures("drained_nodes")


OWN_NODE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}]
        }
    }
}
"""As the DaemonSet controller writes it."""


async def test_a_pod_does_not_hide_behind_a_daemon_set(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Owner references can be changed, the affinity of a bound pod cannot."""
    await cluster.create(pod("hiding", "GPU-0", owner="DaemonSet"))
    assert await run(cluster, "gpu-1/GPU-0", ignore_daemonsets=True) == 1
    no_controller = "metadata.ownerReferences: no controller creates it again: --force evicts it"
    assert f"error: pod default/hiding: {no_controller}" in capsys.readouterr().err.splitlines()
    assert await run(cluster, "gpu-1/GPU-0", ignore_daemonsets=True, force=True) == 0
    assert await names(cluster) == []


async def test_as_by_kubectl_some_pods_need_an_option(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cache = {"volumes": [{"name": "cache", "emptyDir": {}}]}
    for each in (
        pod("daemon", "GPU-0", owner="DaemonSet", affinity=OWN_NODE),
        pod("bare", "GPU-0", owner=""),
        pod("cache", "GPU-0", **cache),
        pod("a", "GPU-0"),
    ):
        await cluster.create(each)
    before = await names(cluster)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: pod default/bare: metadata.ownerReferences: no controller creates it again: --force evicts it",
        "error: pod default/cache: spec.volumes[cache].emptyDir: its data would be lost: "
        "--delete-emptydir-data evicts it",
        "error: pod default/daemon: metadata.ownerReferences: a DaemonSet would create it again: "
        "--ignore-daemonsets leaves it there",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted",
    ]
    assert await names(cluster) == before
    assert await cordoned(cluster) == ["GPU-0"], "as kubectl, which cordons first"
    options = {"ignore_daemonsets": True, "force": True, "delete_emptydir_data": True}
    assert await run(cluster, "gpu-1/GPU-0", **options) == 0
    assert await names(cluster) == ["daemon"]
    out, err = capsys.readouterr()
    assert out.endswith("gpu-1/GPU-0 drained: 3 pods evicted, 1 ignored\n")
    assert err.splitlines() == [
        "Warning: pod default/bare is evicted, though no controller creates it again",
        "Warning: ignoring pod default/daemon, a pod of a DaemonSet: it keeps the card",
    ]


async def test_only_the_mirror_annotation_makes_a_pod_static(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owner references can be changed, so that a pod would hide by one."""
    hiding = pod("hiding", "GPU-0", owner="Node")
    static = pod("static", "GPU-0", owner="Node")
    static["metadata"] |= {"namespace": "default", "uid": "static"}
    static["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "hash"
    await cluster.create(hiding)
    list_all = cluster.list

    async def with_static(kind: str) -> Any:
        # The API server takes mirror pods only of a kubelet.
        found = await list_all(kind)
        return [*found, static] if kind == "Pod" else found

    monkeypatch.setattr(cluster, "list", with_static)
    assert await run(cluster, "gpu-1/GPU-0") == 1
    no_controller = "metadata.ownerReferences: no controller creates it again: --force evicts it"
    assert f"error: pod default/hiding: {no_controller}" in capsys.readouterr().err.splitlines()
    assert await run(cluster, "gpu-1/GPU-0", force=True) == 1
    assert [each["metadata"]["name"] for each in await list_all("Pod")] == []
    assert capsys.readouterr().err.splitlines() == [
        "Warning: pod default/hiding is evicted, though no controller creates it again",
        "error: pod default/static is still there: it is a static pod of the kubelet, which no eviction ends",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted, 1 ignored",
    ]


async def test_an_eviction_waits_for_the_budget(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await cluster.create(pod("web-0", "GPU-0"))
    await budget(cluster, "web", expected=2)
    task = asyncio.create_task(run(cluster, "gpu-1/GPU-0"))
    out = ""
    async with asyncio.timeout(60):
        while "retry in 0.02 s" not in out:
            out += capsys.readouterr().out
            await asyncio.sleep(0.01)
    assert "default/web-0 blocked by PodDisruptionBudget b: 0 of 1 allowed; retry in 0.01 s" in out
    assert await names(cluster) == ["web-0"]
    await cluster.delete("PodDisruptionBudget", "default", "b")
    assert await task == 0
    assert await names(cluster) == []


async def test_the_timeout_names_the_pods_that_are_left(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create(pod("web-0", "GPU-0"))
    await cluster.create(pod("a", "GPU-0"))
    await budget(cluster, "web", expected=1)

    def reached(printed: str) -> bool:
        return "pod default/a evicted" in printed and "default/web-0 blocked" in printed

    status, errors = await run_until(reached, cluster, capsys, monkeypatch)
    assert status == 1
    assert errors == [
        "error: the timeout of 600 s is over",
        "error: pod default/web-0 is still there: blocked by PodDisruptionBudget b: 0 of 0 allowed",
        "error: gpu-1/GPU-0 not drained: 1 pod evicted",
    ]
    assert await names(cluster) == ["web-0"]


async def test_the_timeout_ends_a_long_look_for_pods(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = Event(), Event()

    def endless(*_: Any) -> Any:
        begun.set()
        assert ended.wait(60)
        return CardHolders([], {}, [], [])

    monkeypatch.setattr(drain, "card_holders", endless)
    assert await run(cluster, "gpu-1/GPU-0", timeout=3.0) == 1
    ended.set()
    assert begun.is_set()
    assert "error: the timeout of 3 s is over" in capsys.readouterr().err.splitlines()


async def test_the_timeout_ends_the_look_whether_a_card_exists_before_anything_changes(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(drain._Drain, "check", endless)
    assert await run(cluster, "gpu-1/GPU-0", timeout=0.1) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: the timeout of 0.1 s is over",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted",
    ]
    assert await cordoned(cluster) == []


async def test_an_interrupt_names_the_pods_that_are_left(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await cluster.create(pod("web-0", "GPU-0"))
    await budget(cluster, "web", expected=1)
    task = asyncio.create_task(run(cluster, "gpu-1/GPU-0"))
    out = ""
    async with asyncio.timeout(60):
        while "retry in" not in out:
            out += capsys.readouterr().out
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert capsys.readouterr().err.splitlines() == [
        "error: interrupted",
        "error: pod default/web-0 is still there: blocked by PodDisruptionBudget b: 0 of 0 allowed",
        "error: gpu-1/GPU-0 not drained: 0 pods evicted",
    ]


async def test_a_pod_that_does_not_end_is_waited_for(
    cluster: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = pod("stays", "GPU-0", terminationGracePeriodSeconds=3600)
    stays["metadata"]["annotations"]["pod-delete.stage.kwok.x-k8s.io/delay"] = "1h"
    await cluster.create(stays)
    looks = 0
    get = cluster.get

    async def counted(kind: str, namespace: str, name: str) -> Any:
        nonlocal looks
        looks += kind == "Pod"
        return await get(kind, namespace, name)

    monkeypatch.setattr(cluster, "get", counted)
    status, errors = await run_until(lambda _: looks >= 3, cluster, capsys, monkeypatch, grace=1800)
    assert status == 1
    assert "error: pod default/stays is still there: terminating" in errors
    (left,) = await cluster.list("Pod")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 1800


async def test_a_dry_run_asks_and_changes_nothing(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    await cluster.create(pod("a", "GPU-0"))
    assert await run(cluster, "gpu-1/GPU-0", dry_run=True) == 0
    assert capsys.readouterr().out.splitlines() == [
        "gpu-1/GPU-0 cordoned (dry run)",
        "evicting pod default/a (dry run)",
        "pod default/a evicted (dry run)",
        "gpu-1/GPU-0 drained: 1 pod evicted (dry run)",
    ]
    await cluster.create(pod("web-0", "GPU-0"))
    await budget(cluster, "web", expected=1)
    assert await run(cluster, "gpu-1/GPU-0", dry_run=True) == 1
    error = "error: pod default/web-0 blocked by PodDisruptionBudget b: 0 of 0 allowed"
    assert error in capsys.readouterr().err
    assert await names(cluster) == ["a", "web-0"]
    assert await cordoned(cluster) == []
    assert not any("deletionTimestamp" in each["metadata"] for each in await cluster.list("Pod"))


async def test_a_pod_that_is_bound_meanwhile_goes_as_well(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await cluster.create(pod("first", "GPU-0"))
    evict = cluster.evict

    async def racing(namespace: str, name: str, uid: str, **options: Any) -> EvictAnswer:
        if name == "first":
            await cluster.create(pod("second", "GPU-0"))
        answer: EvictAnswer = await evict(namespace, name, uid, **options)
        return answer

    monkeypatch.setattr(cluster, "evict", racing)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert await names(cluster) == []


async def test_a_pod_whose_binding_was_under_way_goes_as_well(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    list_all, lists = cluster.list, 0

    async def racing(kind: str) -> Any:
        nonlocal lists
        found = await list_all(kind)
        lists += kind == "Pod"
        if lists == 1:
            await cluster.create(pod("late", "GPU-0"))
        return found

    monkeypatch.setattr(cluster, "list", racing)
    assert await run(cluster, "gpu-1/GPU-0") == 0
    assert lists >= 3
    assert await names(cluster) == []


async def test_unknown_cards_and_nodes_are_errors(cluster: Any) -> None:
    for card, message in (("gone/0", 'nodes "gone" not found'), ("gpu-1/GPU-9", "gpu-1 has no card GPU-9: it has")):
        with pytest.raises(CommandError, match=message):
            await run(cluster, "gpu-1/GPU-0", card)
    assert await cordoned(cluster) == []
    await cluster.annotate("Node", "", "gpu-2", {"volcano.sh/node-vgpu-register": None})
    with pytest.raises(CommandError, match="gpu-2/0: node gpu-2 does not list its cards by index"):
        await run(cluster, "gpu-2/0")


async def test_nothing_is_changed_before_the_cordons_of_all_nodes_are_read(cluster: Any) -> None:
    await cluster.create(pod("a", "GPU-0"))
    await cluster.annotate("Node", "", "gpu-2", {"deviceshare.io/cordoned-cards": "{broken"})
    with pytest.raises(CommandError, match=r"Node gpu-2: metadata.annotations\[deviceshare.io/cordoned-cards\]"):
        await run(cluster, "gpu-1/GPU-0", "gpu-2/GPU-0")
    assert (await cordoned(cluster), await names(cluster)) == ([], ["a"])


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_card_that_its_node_does_not_list_is_known_by_its_pods_or_the_running_system(
    cluster: Any, dry_run: bool
) -> None:
    await cluster.annotate("Node", "", "gpu-1", {"volcano.sh/node-vgpu-register": None})
    await cluster.create(pod("a", "GPU-0"))
    message = "node gpu-1 has no card GPU-O: it lists no cards, and no pod names this one"
    with pytest.raises(CommandError, match=message):
        await run(cluster, "gpu-1/GPU-0", "gpu-1/GPU-O", dry_run=dry_run)
    annotations = (await cluster.get("Node", "", "gpu-1"))["metadata"].get("annotations") or {}
    assert "deviceshare.io/cordoned-cards" not in annotations
    assert await run(cluster, "gpu-1/GPU-0", dry_run=dry_run) == 0

    async def system() -> SystemView:
        held = frozenset({("gpu-1", "GPU-0")})
        pods = await cluster.list("Pod")
        return SystemView(frozenset({("gpu-1", "GPU-1")}), {each["metadata"]["uid"]: held for each in pods})

    assert await run(cluster, "gpu-1/GPU-1", system=system, dry_run=dry_run) == 0


async def test_the_resource_of_whole_cards_is_no_card(cluster: Any) -> None:
    """The system shows it in place of the cards, which kubelet chooses: all pods that request it would be evicted."""
    await cluster.annotate("Node", "", "gpu-1", {"volcano.sh/node-vgpu-register": None})
    whole = unread("whole")
    whole["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    await cluster.create(whole)
    uid = (await cluster.get("Pod", "default", "whole"))["metadata"]["uid"]

    async def system() -> SystemView:
        return SystemView(frozenset({("gpu-1", "GPU-1")}), {uid: frozenset({("gpu-1", "nvidia.com/gpu")})})

    for card in ("nvidia.com/gpu", "nvidia.com/gpu-0"):
        with pytest.raises(
            CommandError, match=f"gpu-1/{card} is no card: .*`kubectl drain gpu-1` evicts the pods of all"
        ):
            await run(cluster, f"gpu-1/{card}", system=system)
    with pytest.raises(CommandError, match="node gpu-1 has no card GPU-0: it has GPU-1"):
        await run(cluster, "gpu-1/GPU-0", system=system)
    assert await names(cluster) == ["whole"]
    annotations = (await cluster.get("Node", "", "gpu-1"))["metadata"].get("annotations") or {}
    assert "deviceshare.io/cordoned-cards" not in annotations
