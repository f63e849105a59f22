"""Inter-pod affinity with objects of a real API server, which adds label keys and the labels of namespaces."""

from typing import Any

from support.kube_scene import Scene, node, pod

HOSTNAME = "kubernetes.io/hostname"


def labelled(name: str, labels: dict[str, str], kind: str = "", **term: Any) -> dict[str, Any]:
    found = pod(name, asks={"cpu": "100m"})
    found["metadata"]["labels"] = labels
    if kind:
        found["spec"]["affinity"] = {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME, **term}]}
        }
    return found


async def test_pods_keep_apart_by_revision_and_follow_pods_of_a_namespace(scene: Scene) -> None:
    for name in ("n1", "n2"):
        there = node(name)
        there["metadata"]["labels"] = {HOSTNAME: name}
        await scene.cluster.create(there)
    apart = {"labelSelector": {"matchLabels": {"app": "db"}}, "matchLabelKeys": ["hash"]}

    async def claimed(*names: str) -> bool:
        return set(names) <= await scene.claimed("n1") | await scene.claimed("n2")

    await scene.cluster.create(labelled("old-0", {"app": "db", "hash": "old"}, "podAntiAffinity", **apart))
    await scene.cluster.create(labelled("old-1", {"app": "db", "hash": "old"}, "podAntiAffinity", **apart))
    await scene.cluster.create(labelled("new-0", {"app": "db", "hash": "new"}, "podAntiAffinity", **apart))
    await scene.until(lambda: claimed("old-0", "old-1", "new-0"))
    assert len({"old-0", "old-1"} & await scene.claimed("n1")) == 1
    await scene.cluster.create(labelled("old-2", {"app": "db", "hash": "old"}, "podAntiAffinity", **apart))
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    beside = {"labelSelector": {"matchLabels": {"hash": "new"}}, "namespaceSelector": by_name}
    await scene.cluster.create(labelled("beside", {}, "podAffinity", **beside))
    await scene.until(lambda: claimed("beside"))
    where = "n1" if "new-0" in await scene.claimed("n1") else "n2"
    assert "beside" in await scene.claimed(where)
    assert not await claimed("old-2")
