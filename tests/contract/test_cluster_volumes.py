"""Requests for the volumes of pods, on every cluster: a volume has one claim, a claim one selected node."""

import asyncio
from typing import Any

SELECTED_NODE, BY_CONTROLLER = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bound-by-controller"
AMOUNT = {"storage": "1Gi"}


def volume(name: str, claimed: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "storageClassName": "c",
        "accessModes": ["ReadWriteOnce"],
        "capacity": AMOUNT,
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
    }
    if claimed:
        spec["claimRef"] = {"namespace": "default", "name": claimed}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"storageClassName": "c", "accessModes": ["ReadWriteOnce"], "resources": {"requests": AMOUNT}, **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


async def created(cluster: Any, obj: dict[str, Any]) -> str:
    await cluster.create(obj)
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    return str((await cluster.get(obj["kind"], namespace, name))["metadata"]["uid"])


async def test_a_volume_is_reserved_for_the_first_claim(cluster: Any) -> None:
    await cluster.create(volume("pv"))
    found = await asyncio.gather(*(cluster.reserve_volume("pv", "default", f"c{n}", f"uid-{n}") for n in range(6)))
    (winner,) = [number for number, each in enumerate(found) if each.value]
    assert found[winner].value == f"uid-{winner}"
    read = await cluster.get("PersistentVolume", "", "pv")
    reference = read["spec"]["claimRef"]
    assert {key: reference[key] for key in ("kind", "namespace", "name", "uid")} == {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": f"c{winner}",
        "uid": f"uid-{winner}",
    }
    assert read["metadata"]["annotations"][BY_CONTROLLER] == "yes"
    again = await cluster.reserve_volume("pv", "default", f"c{winner}", f"uid-{winner}")
    assert (again.value, again.revision) == (f"uid-{winner}", read["metadata"]["resourceVersion"])
    assert (await cluster.reserve_volume("pv", "default", f"c{winner}", "recreated")).value == f"uid-{winner}"
    assert await cluster.reserve_volume("gone", "default", "c", "uid") is None


async def test_a_volume_that_its_user_reserved_stays_reserved(cluster: Any) -> None:
    await cluster.create(volume("pv", claimed="mine"))
    assert (await cluster.reserve_volume("pv", "default", "other", "uid-other")).value == ""
    assert (await cluster.reserve_volume("pv", "default", "mine", "uid-mine")).value == "uid-mine"
    read = await cluster.get("PersistentVolume", "", "pv")
    assert BY_CONTROLLER not in (read["metadata"].get("annotations") or {})


async def test_one_node_is_selected_for_a_claim(cluster: Any) -> None:
    uid = await created(cluster, claim("data"))
    found = await asyncio.gather(*(cluster.select_node("default", "data", uid, f"n{n}") for n in range(6)))
    read = await cluster.get("PersistentVolumeClaim", "default", "data")
    selected = read["metadata"]["annotations"][SELECTED_NODE]
    assert {each.value for each in found} == {selected}
    assert found[0].revision == read["metadata"]["resourceVersion"]
    assert await cluster.select_node("default", "data", "another", "n1") is None
    assert await cluster.select_node("default", "gone", uid, "n1") is None


async def test_no_node_is_selected_for_a_claim_with_a_volume(cluster: Any) -> None:
    uid = await created(cluster, claim("data", volumeName="pv"))
    assert (await cluster.select_node("default", "data", uid, "n1")).value == "n1"
    read = await cluster.get("PersistentVolumeClaim", "default", "data")
    assert SELECTED_NODE not in (read["metadata"].get("annotations") or {})
