"""Allocating ResourceClaims, on every cluster: a claim has one allocation, and is protected while it has one."""

import asyncio
from typing import Any

import pytest

FINALIZER = "resource.kubernetes.io/delete-protection"
POD, OTHER = ("p", "uid-p"), ("q", "uid-q")


def claim(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def allocation(device: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": device}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


async def created(cluster: Any, name: str) -> str:
    await cluster.create(claim(name))
    return str((await cluster.get("ResourceClaim", "default", name))["metadata"]["uid"])


async def read(cluster: Any, name: str) -> tuple[list[str], list[str], set[str]]:
    """Return the finalizers of a claim, its devices, and the uids of the pods that may use it."""
    found = await cluster.get("ResourceClaim", "default", name)
    status = found.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    users = {each["uid"] for each in status.get("reservedFor") or ()}
    return found["metadata"].get("finalizers") or [], [each["device"] for each in results], users


async def test_a_claim_gets_the_devices_of_one_of_several_writers(cluster: Any) -> None:
    uid = await created(cluster, "c")
    pods = [(f"p{number}", f"uid-{number}") for number in range(5)]
    found = await asyncio.gather(
        *(cluster.allocate_claim("default", "c", uid, allocation(f"gpu-{at}"), pod) for at, pod in enumerate(pods))
    )
    (winner,) = [at for at, each in enumerate(found) if each.reserved]
    assert [each.elsewhere for each in found] == [at != winner for at in range(5)]
    assert await read(cluster, "c") == ([FINALIZER], [f"gpu-{winner}"], {f"uid-{winner}"})
    again = await cluster.allocate_claim("default", "c", uid, allocation(f"gpu-{winner}"), pods[winner])
    assert (again.reserved, again.elsewhere) == (True, False)


async def test_a_claim_that_has_devices_is_reserved_for_further_pods(cluster: Any) -> None:
    uid = await created(cluster, "c")
    assert not (await cluster.allocate_claim("default", "c", uid, None, OTHER)).allocated
    assert await read(cluster, "c") == ([], [], set())
    await cluster.allocate_claim("default", "c", uid, allocation("gpu-0"), POD)
    assert (await cluster.allocate_claim("default", "c", uid, None, OTHER)).reserved
    assert await read(cluster, "c") == ([FINALIZER], ["gpu-0"], {"uid-p", "uid-q"})


async def test_a_claim_that_is_unchanged_is_not_read(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = await created(cluster, "c")
    revision = (await cluster.get("ResourceClaim", "default", "c"))["metadata"]["resourceVersion"]
    reads = []
    get = cluster.get
    monkeypatch.setattr(cluster, "get", lambda *args: reads.append(args) or get(*args))
    found = await cluster.allocate_claim("default", "c", uid, allocation("gpu-0"), POD, untouched=revision)
    assert (found.reserved, reads) == (True, [])
    assert await read(cluster, "c") == ([FINALIZER], ["gpu-0"], {"uid-p"})


async def test_a_claim_that_was_changed_since_is_read(cluster: Any) -> None:
    """It has a finalizer now, which others have written."""
    obj = claim("c")
    obj["metadata"]["finalizers"] = ["example.com/other"]
    await cluster.create(obj)
    uid = (await cluster.get("ResourceClaim", "default", "c"))["metadata"]["uid"]
    found = await cluster.allocate_claim("default", "c", uid, allocation("gpu-0"), POD, untouched="1")
    assert found.reserved
    assert await read(cluster, "c") == (["example.com/other", FINALIZER], ["gpu-0"], {"uid-p"})
    again = await cluster.allocate_claim("default", "c", "another", allocation("gpu-1"), OTHER, untouched="1")
    assert again is None


async def test_another_claim_of_the_name_is_left_alone(cluster: Any) -> None:
    await created(cluster, "c")
    assert await cluster.allocate_claim("default", "c", "another", allocation("gpu-0"), POD) is None
    assert await cluster.allocate_claim("default", "gone", "another", allocation("gpu-0"), POD) is None
    await cluster.release_claim("default", "gone", "another", allocation("gpu-0"), POD)
    assert await read(cluster, "c") == ([], [], set())


async def test_the_last_pod_frees_the_devices_that_were_allocated_for_it(cluster: Any) -> None:
    uid = await created(cluster, "c")
    await cluster.allocate_claim("default", "c", uid, allocation("gpu-0"), POD)
    await cluster.allocate_claim("default", "c", uid, None, OTHER)
    await cluster.release_claim("default", "c", uid, allocation("gpu-0"), POD)
    assert await read(cluster, "c") == ([FINALIZER], ["gpu-0"], {"uid-q"})
    await cluster.release_claim("default", "c", uid, None, OTHER)
    assert await read(cluster, "c") == ([FINALIZER], ["gpu-0"], set()), "others allocated it"
    await cluster.release_claim("default", "c", uid, allocation("gpu-1"), POD)
    assert await read(cluster, "c") == ([FINALIZER], ["gpu-0"], set()), "it has other devices"
    await cluster.release_claim("default", "c", uid, allocation("gpu-0"), POD)
    assert await read(cluster, "c") == ([], [], set())


async def test_a_claim_whose_finalizer_alone_was_written_is_allocated_or_released(cluster: Any) -> None:
    """A writer may end between its writes."""
    for name, devices in (("again", ["gpu-0"]), ("undone", [])):
        obj = claim(name)
        obj["metadata"]["finalizers"] = [FINALIZER]
        await cluster.create(obj)
        uid = (await cluster.get("ResourceClaim", "default", name))["metadata"]["uid"]
        if devices:
            await cluster.allocate_claim("default", name, uid, allocation("gpu-0"), POD)
        else:
            await cluster.release_claim("default", name, uid, allocation("gpu-0"), POD)
        finalizers, found, _ = await read(cluster, name)
        assert (found, finalizers) == (devices, [FINALIZER] if devices else [])
