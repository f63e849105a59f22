"""Volumes with objects of a real API server: a bound claim decides the node of its pod."""

from typing import Any

from support.kube_scene import Scene, node, pod

HOSTNAME = "kubernetes.io/hostname"
AMOUNT = {"storage": "1Gi"}


def volume(name: str, host: str, claim: str) -> dict[str, Any]:
    on_host = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [host]}]}
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "capacity": AMOUNT,
        "local": {"path": "/data"},
        "claimRef": {"namespace": "default", "name": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_host]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str, of_volume: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    }
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": AMOUNT},
        "volumeName": of_volume,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def using(name: str, of_claim: str) -> dict[str, Any]:
    found = pod(name, asks={"cpu": "100m"})
    found["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": of_claim}}]
    return found


async def test_pods_go_where_their_bound_volumes_are(scene: Scene) -> None:
    for name in ("n1", "n2"):
        there = node(name)
        there["metadata"]["labels"] = {HOSTNAME: name}
        await scene.cluster.create(there)
    await scene.cluster.create(using("early", "second"))

    async def claimed(name: str, where: str) -> bool:
        return name in await scene.claimed(where)

    for number, host in (("first", "n1"), ("second", "n2")):
        await scene.cluster.create(volume(f"pv-{number}", host, number))
        await scene.cluster.create(claim(number, f"pv-{number}"))
    await scene.until(lambda: claimed("early", "n2"))
    await scene.cluster.create(using("late", "first"))
    await scene.until(lambda: claimed("late", "n1"))
    await scene.cluster.create(using("never", "third"))
    await scene.cluster.create(pod("plain", asks={"cpu": "100m"}))
    await scene.until(lambda: claimed("plain", "n1"))
    assert not await claimed("never", "n1")
    assert not await claimed("never", "n2")
