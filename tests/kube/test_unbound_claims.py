"""Claims that are bound when their first pod has a node, with objects of a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from deviceshare_binder import service as binder
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.kinds import KINDS
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_scene import Scene, following, node, pod
from support.service import at_work
from support.volume_controllers import VolumeControllers, controlling_volumes

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OPTIONS = {"plugin_patience": 60.0, "reports_per_second": 200.0, "dry_run": False}
CLASSES = {"unbound-local": "kubernetes.io/no-provisioner", "unbound-made": "disk.example.com"}


class Volumes(Scene):
    """Two nodes in two zones, classes whose claims wait, and simulated controllers of volumes."""

    controllers: VolumeControllers

    async def claim(self, name: str, of_class: str, size: str = "1Gi") -> None:
        spec = {
            "storageClassName": of_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        metadata = {"name": name, "namespace": "default"}
        await self.cluster.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        )

    async def volume(self, name: str, host: str, size: str) -> None:
        on_host = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [host]}]}
        spec = {
            "storageClassName": "unbound-local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [on_host]}},
        }
        await self.cluster.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        )

    async def use(self, name: str, *claims: str) -> None:
        found = pod(name, asks={"cpu": "100m"})
        found["spec"]["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        await self.cluster.create(found)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        found = await self.cluster.get(kind, "" if kind == "PersistentVolume" else "default", name)
        assert found is not None
        return found

    async def node_of(self, name: str) -> str:
        return str((await self.get("Pod", name))["spec"].get("nodeName", ""))

    async def until_bound(self, name: str) -> str:
        """Wait until a pod has a node, and return it: all of its claims are bound then."""
        await self.until(lambda: self.node_of(name))
        for each in (await self.get("Pod", name))["spec"].get("volumes", ()):
            if "persistentVolumeClaim" in each:
                claim = await self.get("PersistentVolumeClaim", each["persistentVolumeClaim"]["claimName"])
                assert claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
        return await self.node_of(name)

    async def volume_of(self, claim: str) -> dict[str, Any]:
        found = await self.get("PersistentVolumeClaim", claim)
        volume = await self.get("PersistentVolume", found["spec"]["volumeName"])
        assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        return volume


@pytest.fixture
async def scene(apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Volumes]:
    monkeypatch.setattr(binder, "open_cluster", lambda kubeconfig, *names: KubeCluster(kubeconfig=kubeconfig))
    async with CleanCluster(apiserver) as cluster, following(apiserver, nats_url, monkeypatch) as context:
        found = Volumes(cluster, context)
        for name, provisioner in CLASSES.items():
            storage_class = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            await cluster._api.request("POST", KINDS["StorageClass"].collection(), body=storage_class)
        for name in ("n1", "n2"):
            there = node(name)
            there["metadata"]["labels"] = {HOSTNAME: name, ZONE: f"z{name[1]}"}
            await cluster.create(there)
        async with controlling_volumes(cluster) as found.controllers:
            yield found
        for name in CLASSES:
            await cluster.delete("StorageClass", "", name)


async def test_claims_are_bound_with_their_pods(scene: Volumes, apiserver: ApiServer, nats_url: str) -> None:
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        await scene.volume("pv-small", "n1", "1Gi")
        await scene.volume("pv-right", "n2", "5Gi")
        await scene.volume("pv-large", "n1", "9Gi")
        await scene.claim("data", "unbound-local", "3Gi")
        await scene.claim("cache", "unbound-made")
        await scene.use("both", "data", "cache")
        where = await scene.until_bound("both")
        chosen = await scene.volume_of("data")
        assert chosen["metadata"]["name"] == {"n1": "pv-large", "n2": "pv-right"}[where]
        made = await scene.volume_of("cache")
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [f"z{where[1]}"]

        # One volume is left that is large enough, and one claim too many.
        for name in ("first", "second"):
            await scene.claim(name, "unbound-local", "2Gi")
            await scene.use(name, name)

        async def one_bound() -> bool:
            return sorted([bool(await scene.node_of("first")), bool(await scene.node_of("second"))]) == [False, True]

        async def other_waits() -> bool:
            (other,) = [name for name in ("first", "second") if not await scene.node_of(name)]
            conditions = (await scene.get("Pod", other))["status"].get("conditions", ())
            return any("didn't find available persistent volumes to bind" in each["message"] for each in conditions)

        await scene.until(one_bound)
        await scene.until(other_waits)
        assert await one_bound()


async def test_a_rejected_node_is_decided_again(scene: Volumes, apiserver: ApiServer, nats_url: str) -> None:
    scene.controllers.rejections = 2
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        await scene.claim("cache", "unbound-made")
        await scene.use("picky", "cache")
        await scene.until_bound("picky")
    assert len(scene.controllers.rejected) == 2


async def test_a_binder_that_is_restarted_waits_for_the_volumes(
    scene: Volumes, apiserver: ApiServer, nats_url: str
) -> None:
    options = {"cluster": str(apiserver.kubeconfig()), **OPTIONS}
    await scene.volume("pv-1", "n1", "1Gi")

    async def requested() -> bool:
        claim = await scene.get("PersistentVolumeClaim", "cache")
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        volume = await scene.get("PersistentVolume", "pv-1")
        return selected == "n1" and volume["spec"].get("claimRef", {}).get("name") == "data"

    await scene.until(
        lambda: scene.get("PersistentVolume", "pv-1"), lambda volume: volume["status"].get("phase") == "Available"
    )
    scene.controllers.working = False
    await scene.claim("data", "unbound-local")
    await scene.claim("cache", "unbound-made")
    async with at_work("binder", binder.main, nats_url, **options):
        await scene.use("late", "data", "cache")
        await scene.until(requested)
    async with at_work("binder", binder.main, nats_url, **options):
        # Others of the node do not wait for it.
        plain = pod("plain", asks={"cpu": "100m"})
        plain["spec"]["nodeSelector"] = {HOSTNAME: "n1"}
        await scene.cluster.create(plain)
        await scene.until_bound("plain")
        assert not await scene.node_of("late")
        scene.controllers.working = True
        assert await scene.until_bound("late") == "n1"


@pytest.mark.parametrize("how", ["deleted", "taken"])
async def test_a_reserved_volume_that_is_lost_is_replaced(
    scene: Volumes, apiserver: ApiServer, nats_url: str, how: str
) -> None:
    await scene.volume("pv-1", "n1", "1Gi")

    async def reserved() -> bool:
        volume = await scene.get("PersistentVolume", "pv-1")
        return volume["spec"].get("claimRef", {}).get("name") == "data"

    await scene.until(
        lambda: scene.get("PersistentVolume", "pv-1"), lambda volume: volume["status"].get("phase") == "Available"
    )
    scene.controllers.working = False
    await scene.claim("data", "unbound-local")
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        await scene.use("late", "data")
        await scene.until(reserved)
        if how == "deleted":
            await scene.cluster.delete("PersistentVolume", "", "pv-1")
        else:
            other = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "other", "uid": "uid-other"}
            await scene.patch("PersistentVolume", "pv-1", {"spec": {"claimRef": other}})
        await scene.volume("pv-2", "n2", "1Gi")
        scene.controllers.working = True
        assert await scene.until_bound("late") == "n2"


async def test_a_volume_that_is_being_deleted_is_not_reserved(scene: Volumes) -> None:
    """The API server keeps it, since a finalizer protects it."""
    scene.controllers.working = False
    await scene.volume("pv-1", "n1", "1Gi")
    await scene.cluster._api.request("DELETE", KINDS["PersistentVolume"].object("", "pv-1"))
    refused = await scene.cluster.reserve_volume("pv-1", "default", "data", "uid-data")
    assert (refused.value, refused.terminating) == ("", True)
    assert "claimRef" not in (await scene.get("PersistentVolume", "pv-1"))["spec"]
