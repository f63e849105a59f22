"""The local cluster makes the ResourceClaims of templates, and frees those that no pod uses, as Kubernetes does."""

from collections.abc import Awaitable, Callable
from typing import Any

from deviceshare_cluster.interface import Object
from deviceshare_localcluster import LocalCluster
from support.controlled import controlled, until

API = {"apiVersion": "resource.k8s.io/v1"}
DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}
ALLOCATION: Object = {
    "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]}
}


def pod(name: str, **claims: str) -> Object:
    """Return a pod with claims: the names of templates."""
    of_pod = [{"name": each, "resourceClaimTemplateName": template} for each, template in claims.items()]
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}], "resourceClaims": of_pod}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def template(name: str) -> Object:
    spec = {"metadata": {"labels": {"of": name}}, "spec": {"devices": DEVICES}}
    return {**API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


async def claim_of(local: LocalCluster, name: str, of_pod: str) -> Object | None:
    """Return the claim of a pod that its status names."""
    found = await local.get("Pod", "default", name)
    statuses: list[Any] = ((found or {}).get("status") or {}).get("resourceClaimStatuses") or []
    names = [each["resourceClaimName"] for each in statuses if each["name"] == of_pod]
    return await local.get("ResourceClaim", "default", names[0]) if names else None


def has_claim(local: LocalCluster, name: str, of_pod: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await claim_of(local, name, of_pod) is not None

    return check


async def test_a_pod_gets_the_claims_of_its_templates(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t", more="later"), template("t")])
        await until(has_claim(local, "a", "gpu"))
        found = await claim_of(local, "a", "gpu")
        assert found is not None
        owner = await local.get("Pod", "default", "a")
        assert owner is not None
        (reference,) = found["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (owner["metadata"]["uid"], True)
        assert found["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert found["metadata"]["labels"] == {"of": "t"}
        assert found["spec"]["devices"]["requests"][0]["name"] == "r"
        await local.make([template("later")])
        await until(has_claim(local, "a", "more"))
        assert len(await local.list("ResourceClaim")) == 2


async def test_claims_go_with_their_pod(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        await until(has_claim(local, "a", "gpu"))
        await local.delete("Pod", "default", "a")

        async def gone() -> bool:
            return not await local.list("ResourceClaim")

        await until(gone)


async def test_a_claim_without_pods_is_free(local: LocalCluster) -> None:
    async with controlled(local):
        shared = {**API, "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": {"devices": DEVICES}}
        pods = [pod(name) for name in ("a", "b")]
        for each in pods:
            each["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
        await local.make([shared, *pods])
        uid = (await local.get("ResourceClaim", "default", "shared") or {})["metadata"]["uid"]
        for name in ("a", "b"):
            found = await local.get("Pod", "default", name)
            assert found is not None
            user = name, found["metadata"]["uid"]
            state = await local.allocate_claim("default", "shared", uid, ALLOCATION, user)
            assert state is not None
            assert state.reserved

        async def users() -> int:
            found = await local.get("ResourceClaim", "default", "shared") or {}
            status = found.get("status") or {}
            if not status.get("reservedFor"):
                assert not status.get("allocation")
                assert not found["metadata"].get("finalizers")
            return len(status.get("reservedFor") or ())

        await local.delete("Pod", "default", "a")

        async def one() -> bool:
            return await users() == 1

        await until(one)
        await local.delete("Pod", "default", "b")

        async def none() -> bool:
            return await users() == 0

        await until(none)
