"""A watch of a real API server survives all failures of watches without missing a change."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare.model import Backoff
from deviceshare.objects import DEVICE_KINDS
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed
from deviceshare_cluster.kube import KubeCluster, follow
from deviceshare_cluster.kube import client as kube_client
from deviceshare_cluster.kube.client import KubeClient
from deviceshare_cluster.kube.follow import PATIENCE, ObjectWatch, Patience
from support.apiserver import ApiServer
from support.beside import beside
from support.definitions import installed
from support.kube_cluster import CleanCluster
from support.kube_proxy import KubeProxy, Query
from support.waiting import until

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "deploy" / "kubernetes" / "crds"
OF_THE_SERVER = {"extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"}
"""ConfigMaps that the API server itself writes, when it likes to."""


class Seen:
    """What a watch has brought, at work in the background; ``there`` are the objects that it says there are."""

    def __init__(self, cluster: KubeCluster, *kinds: str) -> None:
        self.there: dict[tuple[str, str], Any] = {}
        self.listed = 0
        self.changes: list[Change] = []
        self._cluster, self._kinds = cluster, kinds

    async def run(self) -> None:
        async for batch in self._cluster.watch(self._kinds):
            for item in batch:
                if isinstance(item, Listed):
                    self.listed += 1
                    continue
                self.changes.append(item)
                key = item.kind, item.name
                if item.type is ChangeType.DELETED:
                    self.there.pop(key, None)
                else:
                    self.there[key] = json.loads(item.raw)

    async def until(self, *names: str, kind: str = "Node", seconds: float = 60.0) -> None:
        """Wait until it has been listed and exactly these objects of a kind are there."""
        async with asyncio.timeout(seconds):
            while not self.listed or {name for k, name in self.there if k == kind} - OF_THE_SERVER != set(names):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(cluster: KubeCluster, *kinds: str) -> AsyncIterator[Seen]:
    seen = Seen(cluster, *kinds)
    async with beside(seen.run()):
        yield seen


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[CleanCluster]:
    """Give an empty cluster, reached without the proxy."""
    async with CleanCluster(apiserver) as clean:
        yield clean


@pytest.fixture
async def proxy(apiserver: ApiServer) -> AsyncIterator[KubeProxy]:
    """Give a proxy before the API server."""
    async with KubeProxy(apiserver) as running:
        yield running


def through(proxy: KubeProxy, directory: Path, patience: Patience = PATIENCE) -> KubeCluster:
    return KubeCluster(kubeconfig=proxy.kubeconfig(directory), patience=patience)


async def test_one_watch_delivers_existing_objects_and_changes(cluster, proxy, tmp_path):
    for number in range(3):
        await cluster.create(node(f"n{number}"))
    async with through(proxy, tmp_path) as ours, watching(ours, "Node") as seen:
        await seen.until("n0", "n1", "n2")
        await cluster.delete("Node", "", "n1")
        await seen.until("n0", "n2")
    (asked,) = proxy.of("nodes")
    assert asked["watch"] == asked["sendInitialEvents"] == asked["allowWatchBookmarks"] == "true"


async def test_a_server_without_watch_list_is_listed_in_pages_then_watched(cluster, proxy, tmp_path, monkeypatch):
    monkeypatch.setattr("deviceshare_cluster.kube.follow.PAGE", 2)
    for number in range(5):
        await cluster.create(node(f"n{number}"))
    proxy.meddle = lambda path, query: 422 if "sendInitialEvents" in query else None
    async with through(proxy, tmp_path) as ours, watching(ours, "Node") as seen:
        await seen.until("n0", "n1", "n2", "n3", "n4")
        await cluster.create(node("late"))
        await seen.until("n0", "n1", "n2", "n3", "n4", "late")
    first, *pages, watch = proxy.of("nodes")
    assert "sendInitialEvents" in first
    assert ["continue" in page for page in pages] == [False, True, True]
    assert "resourceVersion" in watch


async def test_a_server_that_fails_to_list_by_a_watch_is_listed(cluster, proxy, tmp_path):
    await cluster.create(node("a"))
    proxy.meddle = lambda path, query: 500 if "sendInitialEvents" in query else None
    async with through(proxy, tmp_path) as ours, watching(ours, "Node") as seen:
        await seen.until("a")


async def test_a_silent_watch_is_begun_anew_and_nothing_is_missed(cluster, proxy, tmp_path):
    await cluster.create(node("before"))
    async with through(proxy, tmp_path, Patience(silence=1.0)) as ours, watching(ours, "Node") as seen:
        await seen.until("before")
        proxy.silence()
        await cluster.create(node("unheard"))
        await seen.until("before", "unheard", seconds=10)
        assert seen.listed == 1
    _, *again = proxy.of("nodes")
    assert again
    assert all("sendInitialEvents" not in query for query in again), "it goes on from where it was"


async def test_a_watch_is_begun_anew_after_each_silence_without_a_pause(cluster, proxy, tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "RETRY", Backoff(3600.0, 3600.0))
    await cluster.create(node("a"))
    fourth = asyncio.Event()

    def meddle(path: str, query: Query) -> None:
        if len(proxy.of("nodes")) >= 4:
            fourth.set()

    proxy.meddle = meddle
    async with through(proxy, tmp_path, Patience(silence=0.5)) as ours, watching(ours, "Node") as seen:
        await seen.until("a")
        await asyncio.wait_for(fourth.wait(), 60)


async def test_deletions_before_a_compacted_revision_are_delivered(apiserver, cluster, proxy, tmp_path):
    await cluster.create(node("kept"))
    await cluster.create(node("gone"))
    gate = {"shut": False, "expired": 0}

    def meddle(path: str, query: Query) -> int | None:
        if gate["shut"]:
            return 503
        if "resourceVersion" in query and path.endswith("/nodes") and not gate["expired"]:
            gate["expired"] += 1
            query["resourceVersion"] = "1"  # as one who was away for days; the server itself says 410
        return None

    proxy.meddle = meddle
    async with through(proxy, tmp_path, Patience(silence=0.5)) as ours, watching(ours, "Node") as seen:
        await seen.until("kept", "gone")
        gate["shut"] = True
        proxy.silence()
        await cluster.delete("Node", "", "gone")
        await cluster.create(node("new"))
        await asyncio.to_thread(apiserver.restart_apiserver)  # it begins to remember from now on
        gate["shut"] = False
        await seen.until("kept", "new", seconds=40)
    assert gate["expired"] == 1
    assert sum("sendInitialEvents" in query for query in proxy.of("nodes")) == 2
    applied = [change.name for change in seen.changes if change.type is ChangeType.APPLIED]
    assert applied.count("kept") == 1, "an unchanged object is not delivered again"


async def test_a_watch_outlives_the_api_server(apiserver, cluster):
    await cluster.create(node("a"))
    async with KubeCluster(str(apiserver.kubeconfig())) as ours, watching(ours, "Node", "Pod") as seen:
        await seen.until("a")
        await asyncio.to_thread(apiserver.restart_apiserver, 0.5)
        await cluster.delete("Node", "", "a")
        await cluster.create(node("b"))
        await seen.until("b", seconds=40)


async def test_a_kind_whose_definition_comes_later_appears(apiserver, cluster):
    definition = yaml.safe_load((CRDS / "queues.yaml").read_text())
    patience = Patience(absent=0.3)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    kubeconfig = str(apiserver.kubeconfig())
    async with KubeCluster(kubeconfig, patience=patience) as ours, watching(ours, "Queue") as seen:
        await seen.until(kind="Queue")
        with installed(apiserver, definition):
            await cluster.create(queue)
            await seen.until("q", kind="Queue")
        await seen.until(kind="Queue")


async def test_only_config_maps_of_the_configured_namespaces_are_read(apiserver, cluster):
    def config(namespace: str, name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}

    for namespace, name in (("default", "not-ours"), ("kube-system", "kube-root-ca.crt"), ("kube-system", "a")):
        if await cluster.get("ConfigMap", namespace, name) is None:
            await cluster.create(config(namespace, name))
    async with KubeCluster(str(apiserver.kubeconfig())) as ours, watching(ours, "ConfigMap") as seen:
        await cluster.create(config("kube-system", "b"))
        await seen.until("a", "b", kind="ConfigMap")


async def test_config_maps_of_the_namespace_of_the_service_account_are_read(apiserver, cluster, monkeypatch):
    """The chart may be installed in any namespace."""
    monkeypatch.setattr(KubeClient, "own_namespace", lambda _: "default")
    for namespace, name in (("default", "own"), ("kube-system", "other")):
        metadata = {"namespace": namespace, "name": name}
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    async with KubeCluster(str(apiserver.kubeconfig())) as ours, watching(ours, "ConfigMap") as seen:
        await seen.until("own", "other", kind="ConfigMap")


def test_the_namespace_is_that_of_the_service_account(monkeypatch, tmp_path):
    monkeypatch.setattr(kube_client, "NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert KubeClient().own_namespace() == ""
    (tmp_path / "namespace").write_text("gpu\n")
    assert KubeClient().own_namespace() == "gpu"
    assert KubeClient(context="another-cluster").own_namespace() == ""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert KubeClient().own_namespace() == ""


async def test_a_namespace_that_we_may_not_read_holds_nothing_up(apiserver, cluster, proxy, tmp_path):
    proxy.meddle = lambda path, query: 403 if "/volcano-system/" in path else None
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "ours"}}
    await cluster.create(config)
    patience = Patience(absent=0.3)
    async with through(proxy, tmp_path, patience) as ours, watching(ours, "ConfigMap", "Node") as seen:
        await seen.until("ours", kind="ConfigMap", seconds=30)


async def test_devices_that_we_may_not_read_hold_nothing_up(cluster, proxy, tmp_path, caplog):
    proxy.meddle = lambda path, query: 403 if "/resource.k8s.io/" in path else None
    await cluster.create(node("a"))
    patience = Patience(absent=0.3)
    async with through(proxy, tmp_path, patience) as ours, watching(ours, "Node", *DEVICE_KINDS) as seen:
        await seen.until("a", seconds=30)
    logged = [each for each in caplog.messages if "value resourceClaims" in each]
    assert len(logged) == len(DEVICE_KINDS), "once for each kind"


async def test_a_kind_that_we_may_not_read_is_waited_for(cluster, proxy, tmp_path):
    await cluster.create(node("a"))
    forbidden = {"on": True}
    proxy.meddle = lambda path, query: 403 if forbidden["on"] else None
    async with through(proxy, tmp_path) as ours, watching(ours, "Node") as seen:
        await asyncio.sleep(2)
        assert not seen.listed, "a refusal is no empty list"
        forbidden["on"] = False
        await seen.until("a")


async def test_a_defect_of_a_follower_ends_the_watch(apiserver, cluster, monkeypatch):
    def broken(self: ObjectWatch, changes: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(ObjectWatch, "_note", broken)
    async with KubeCluster(str(apiserver.kubeconfig())) as ours:
        seen = Seen(ours, "Node", "Pod")
        task = asyncio.create_task(seen.run())
        await seen.until()
        await cluster.create(node("a"))
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(task, 60)


async def test_a_server_that_ends_each_watch_at_once_is_not_stormed(cluster, proxy, tmp_path):
    await cluster.create(node("a"))
    proxy.meddle = lambda path, query: 410 if "resourceVersion" in query else None
    async with through(proxy, tmp_path, Patience(silence=0.2)) as ours, watching(ours, "Node") as seen:
        await seen.until("a")
        await asyncio.sleep(3)
    assert 2 <= len(proxy.asked) < 25


NO_LIST = (b"<html>login</html>\n", b"{}\n", b'{"metadata": {"resourceVersion": "x"}, "items": [7]}\n')


@pytest.mark.parametrize("body", NO_LIST)
async def test_an_answer_that_is_not_of_an_api_server_is_a_transient_error(cluster, proxy, tmp_path, body):
    await cluster.create(node("a"))
    proxy.meddle = lambda path, query: body if path.endswith(("nodes", "nodes/a")) else None
    async with through(proxy, tmp_path) as ours:
        for call in (ours.list("Node"), ours.revisions("Node")):
            with pytest.raises(ClusterError) as raised:
                await call
            assert not raised.value.final
        if b"metadata" not in body:
            with pytest.raises(ClusterError):
                await ours.get("Node", "", "a")
        async with watching(ours, "Node") as seen:
            await until(lambda: len(proxy.of("nodes")) >= 4)  # a watch, and a list after it
            proxy.meddle = lambda path, query: None
            await seen.until("a")


async def test_a_write_that_a_proxy_answered_was_not_done(cluster, proxy, tmp_path):
    pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await cluster.create({"apiVersion": "v1", "kind": "Pod"} | pod)
    uid = (await cluster.get("Pod", "default", "a"))["metadata"]["uid"]
    proxy.meddle = lambda path, query: b"<html>login</html>" if path.endswith("/binding") else None
    async with through(proxy, tmp_path) as ours:
        with pytest.raises(ClusterError, match="not JSON") as raised:
            await ours.bind("default", "a", uid, "n1", {})
    assert not raised.value.final


async def test_a_token_that_was_refused_is_read_again(apiserver, tmp_path):
    token = tmp_path / "token"
    config = json.loads(apiserver.kubeconfig().read_text())
    good = config["users"][0]["user"].pop("token")
    config["users"][0]["user"]["tokenFile"] = str(token)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    token.write_text("expired")
    async with KubeCluster(str(kubeconfig)) as ours:
        with pytest.raises(ClusterError, match="401"):
            await ours.list("Node")
        token.write_text(good)
        await ours.list("Node")


async def test_in_a_pod_the_token_is_that_of_its_account(apiserver, tmp_path, monkeypatch):
    config = json.loads(apiserver.kubeconfig().read_text())
    host, _, port = apiserver.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    token = tmp_path / "token"
    token.write_text("expired")
    place = kube_client.config.incluster_config
    monkeypatch.setattr(place, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(place, "SERVICE_CERT_FILENAME", config["clusters"][0]["cluster"]["certificate-authority"])
    api = KubeClient()
    await api.start()
    try:
        with pytest.raises(ClusterError, match="401"):
            await api.request("GET", "/api/v1/nodes")
        token.write_text(config["users"][0]["user"]["token"])
        assert json.loads(await api.request("GET", "/api/v1/nodes"))["kind"] == "NodeList"
    finally:
        await api.stop()
