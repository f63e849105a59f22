"""A request to bind a pod that arrives late, on a real API server: when the pod's claim is gone, and its place too."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from deviceshare.model import FENCE
from deviceshare_binder import service as binder
from deviceshare_cluster.kube import KubeCluster
from support.apiserver import ApiServer
from support.kube_proxy import KubeProxy
from support.kube_scene import Scene, node, pod
from support.service import at_work

OPTIONS = {"plugin_patience": 60.0, "reports_per_second": 200.0, "dry_run": False}


@pytest.fixture(autouse=True)
def kubeconfig_of_the_binder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binder, "open_cluster", lambda kubeconfig, *names: KubeCluster(kubeconfig=kubeconfig))


async def where(scene: Scene, name: str) -> dict[str, Any]:
    found = await scene.cluster.get("Pod", "default", name)
    assert found is not None
    return found


async def ready(scene: Scene, status: str) -> None:
    await scene.patch("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": status}]}}, "/status")


async def test_a_late_binding_does_not_take_a_place_that_was_given_away(
    scene: Scene, apiserver: ApiServer, nats_url: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(KubeProxy(apiserver))
        proxy.holds = lambda method, path: path.endswith("/binding")
        first = await stack.enter_async_context(AsyncExitStack())
        way = proxy.kubeconfig(tmp_path)
        await first.enter_async_context(at_work("binder", binder.main, nats_url, cluster=way, **OPTIONS))
        await scene.cluster.create(node())
        await scene.cluster.create(pod("late"))
        await scene.until(lambda: bool(proxy.held))
        await first.aclose()
        await ready(scene, "False")
        direct = str(apiserver.kubeconfig())
        await stack.enter_async_context(at_work("binder", binder.main, nats_url, cluster=direct, **OPTIONS))
        await scene.until(scene.claimed, lambda claimed: not claimed)
        assert FENCE in (await where(scene, "late"))["metadata"]["annotations"]
        urgent = pod("next")
        urgent["spec"]["priorityClassName"] = "system-node-critical"
        await scene.cluster.create(urgent)
        await scene.settled()
        await ready(scene, "True")

        proxy.holds = lambda method, path: path.endswith("late/binding")
        for held in proxy.held[1:]:  # of the next pod
            await proxy.release(held)
        await scene.until(lambda: where(scene, "next"), lambda pod: pod["spec"].get("nodeName") == "n1")

        late = proxy.held[0]
        assert late.path.endswith("late/binding")
        assert await proxy.release(late) == 409
        assert "nodeName" not in (await where(scene, "late"))["spec"]
        assert await scene.claimed() == {"next"}

        # The revision alone stops the request: without it the card has two pods of one slot.
        body = json.loads(late.body)
        del body["metadata"]["resourceVersion"]
        assert await proxy.release(late, json.dumps(body).encode()) == 201
        devices = {
            (await where(scene, name))["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"]
            for name in ("late", "next")
        }
        assert len(devices) == 1


async def test_a_label_that_the_facts_do_not_show_delays_a_binding_only(
    scene: Scene, apiserver: ApiServer, nats_url: str
) -> None:
    await scene.cluster.create(node())
    await scene.cluster.create(pod("labelled"))
    await scene.until(scene.claimed, lambda claimed: claimed == {"labelled"})
    await scene.patch("Pod", "labelled", {"metadata": {"labels": {"any": "thing"}, "annotations": {"any": "thing"}}})
    direct = str(apiserver.kubeconfig())
    async with at_work("binder", binder.main, nats_url, cluster=direct, **OPTIONS):
        await scene.until(lambda: where(scene, "labelled"), lambda pod: pod["spec"].get("nodeName") == "n1")
    assert FENCE not in (await where(scene, "labelled"))["metadata"]["annotations"]
