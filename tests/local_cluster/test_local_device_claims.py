"""The local cluster makes the ResourceClaims of templates, and frees those that no pod uses, as Kubernetes does."""

from typing import Any

import msgspec
import pytest
from deviceshare.model import RequestError
from deviceshare_cluster.device_claims import FINALIZER
from deviceshare_cluster.interface import Change, ChangeType, Object
from deviceshare_localcluster import LocalCluster, device_claims
from deviceshare_localcluster.device_claims import DeviceClaims
from deviceshare_localcluster.kinds import Key
from support.controlled import controlled
from support.waiting import until

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


async def test_a_pod_gets_the_claims_of_its_templates(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t", more="later"), template("t")])
        found = await until(lambda: claim_of(local, "a", "gpu"))
        assert found is not None
        owner = await local.get("Pod", "default", "a")
        assert owner is not None
        (reference,) = found["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (owner["metadata"]["uid"], True)
        assert found["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert found["metadata"]["labels"] == {"of": "t"}
        assert found["spec"]["devices"]["requests"][0]["name"] == "r"
        await local.make([template("later")])
        await until(lambda: claim_of(local, "a", "more"))
        assert len(await local.list("ResourceClaim")) == 2


async def test_claims_go_with_their_pod(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        await until(lambda: claim_of(local, "a", "gpu"))
        await local.delete("Pod", "default", "a")
        await until(lambda: local.list("ResourceClaim"), lambda claims: not claims)


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
            user = name, found["metadata"]["uid"]
            state = await local.allocate_claim("default", "shared", uid, ALLOCATION, user)
            assert state.reserved

        async def users() -> int:
            found = await local.get("ResourceClaim", "default", "shared") or {}
            status = found.get("status") or {}
            if not status.get("reservedFor"):
                assert not status.get("allocation")
                assert not found["metadata"].get("finalizers")
            return len(status.get("reservedFor") or ())

        await local.delete("Pod", "default", "a")
        await until(users, lambda count: count == 1)
        await local.delete("Pod", "default", "b")
        await until(users, lambda count: count == 0)


# What tenants write


def users(*entries: Any) -> Object:
    """Return a claim that is reserved for something."""
    status = {"reservedFor": list(entries), "allocation": ALLOCATION}
    metadata = {"name": "c", "finalizers": [FINALIZER]}
    return {**API, "kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": DEVICES}, "status": status}


def consuming(amount: Any) -> Object:
    """Return a claim with a share that consumes an amount of memory."""
    result = {"request": "r", "driver": "d", "pool": "p", "device": "a", "shareID": "s"}
    status = {"allocation": {"devices": {"results": [{**result, "consumedCapacity": {"memory": amount}}]}}}
    return {**users(), "status": status}


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (users("a"), "status.reservedFor[0]"),
        (users({"resource": "pods", "name": "a", "uid": 3}), "status.reservedFor[0].uid"),
        ({**users(), "status": {"reservedFor": {"a": "b"}}}, "status.reservedFor"),
        ({**users(), "status": {"allocation": []}}, "status.allocation"),
        (consuming("bogus"), "status.allocation.devices.results[0].consumedCapacity.memory"),
        (consuming([1]), "status.allocation.devices.results[0].consumedCapacity.memory"),
        ({**template("t"), "spec": {"spec": "x"}}, "spec.spec"),
        ({**template("t"), "spec": {"metadata": {"labels": {"a": 1}}, "spec": {}}}, "spec.metadata.labels.a"),
        ({**pod("p"), "status": {"resourceClaimStatuses": ["a"]}}, "status.resourceClaimStatuses[0]"),
        ({**pod("p"), "spec": {**pod("p")["spec"], "resourceClaims": ["a"]}}, "spec.resourceClaims[0]"),
    ],
)
async def test_a_malformed_object_is_not_admitted(local: LocalCluster, obj: Object, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        await local.apply(obj)
    assert refused.value.problem.field == field


async def test_a_malformed_object_that_is_stored_keeps_no_other_from_being_served(
    local: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version may have stored it."""
    bad = pod("a", gpu="t")
    bad["metadata"] |= {"namespace": "default", "uid": "uid-a"}
    bad["status"] = {"phase": "Pending", "resourceClaimStatuses": ["x"]}
    claim = users("not a mapping")
    claim["metadata"] |= {"namespace": "default", "uid": "uid-c"}
    await local._store.create(bad)
    await local._store.create(claim)
    async with controlled(local):
        await local.make([template("t"), pod("b", gpu="t")])
        await until(lambda: claim_of(local, "b", "gpu"))
        assert "Pod default/a: its devices are not managed" in caplog.text
        assert "ResourceClaim default/c: its devices are not managed" in caplog.text
        await local.delete("Pod", "default", "b")
        await until(
            lambda: local.list("ResourceClaim"), lambda claims: [each["metadata"]["name"] for each in claims] == ["c"]
        )


# Deletion


async def test_a_claim_in_use_goes_with_its_last_pod(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        found = await until(lambda: claim_of(local, "a", "gpu"))
        owner = await local.get("Pod", "default", "a")
        metadata, user = found["metadata"], ("a", owner["metadata"]["uid"])
        await local.allocate_claim("default", metadata["name"], metadata["uid"], ALLOCATION, user)
        await local.delete("ResourceClaim", "default", metadata["name"])
        found = await local.get("ResourceClaim", "default", metadata["name"])
        assert found is not None, "its finalizer keeps it"
        assert found["metadata"]["deletionTimestamp"]
        state = await local.allocate_claim("default", metadata["name"], metadata["uid"], ALLOCATION, ("b", "uid-b"))
        assert not state.reserved
        await local.delete("Pod", "default", "a")
        await until(lambda: local.list("ResourceClaim"), lambda claims: not claims)


async def test_a_deleted_claim_of_a_template_is_made_again(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        before = await until(lambda: claim_of(local, "a", "gpu"))
        await local.delete("ResourceClaim", "default", before["metadata"]["name"])

        async def another() -> bool:
            found = await claim_of(local, "a", "gpu")
            return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

        await until(another)


async def test_a_claim_stays_when_its_template_goes(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        await until(lambda: claim_of(local, "a", "gpu"))
        await local.delete("ResourceClaimTemplate", "default", "t")
        await local.make([pod("b", gpu="t"), template("other"), pod("c", gpu="other")])
        await until(lambda: claim_of(local, "c", "gpu"))
        assert await claim_of(local, "a", "gpu") is not None
        assert await claim_of(local, "b", "gpu") is None


async def test_a_claim_that_belongs_to_another_owner_is_not_taken(local: LocalCluster) -> None:
    """It has the name that the controller would give the claim of the pod."""
    await local.make([pod("a", gpu="t"), pod("b")])
    owner = await local.get("Pod", "default", "a")
    other = await local.get("Pod", "default", "b")
    assert owner is not None
    assert other is not None
    taken = [device_claims._of_template(owner, "gpu", template("t"), number) for number in range(2)]
    del taken[0]["metadata"]["ownerReferences"]
    for each in taken[1]["metadata"]["ownerReferences"]:
        each["name"], each["uid"] = "b", other["metadata"]["uid"]
    await local.make(taken)
    async with controlled(local):
        await local.make([template("t")])
        found = await until(lambda: claim_of(local, "a", "gpu"))
        assert found["metadata"]["name"] not in {each["metadata"]["name"] for each in taken}
        assert found["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


async def test_the_claim_of_a_pod_that_ended_is_deleted(local: LocalCluster) -> None:
    async with controlled(local):
        await local.make([pod("a", gpu="t"), template("t")])
        found = await until(lambda: claim_of(local, "a", "gpu"))
        owner = await local.get("Pod", "default", "a")
        metadata, user = found["metadata"], ("a", owner["metadata"]["uid"])
        await local.allocate_claim("default", metadata["name"], metadata["uid"], ALLOCATION, user)
        await local.write_status(Key("Pod", "default", "a"), owner["metadata"]["uid"], {"phase": "Succeeded"})
        await until(lambda: local.list("ResourceClaim"), lambda claims: not claims)


async def test_other_users_than_pods_keep_their_reservation(local: LocalCluster) -> None:
    other = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "uid-j"}
    gone = {"resource": "pods", "name": "gone", "uid": "uid-gone"}
    async with controlled(local):
        await local.make([users(gone, other)])

        async def one() -> bool:
            found = await local.get("ResourceClaim", "default", "c") or {}
            return found["status"]["reservedFor"] == [other] and bool(found["status"]["allocation"])

        await until(one)


async def test_a_pod_concerns_only_its_own_claims(local: LocalCluster) -> None:
    found = DeviceClaims(local)
    raw = [
        msgspec.json.encode(
            {**users({"resource": "pods", "name": f"p{at}", "uid": f"u{at}"}), "metadata": {"name": f"c{at}"}}
        )
        for at in range(100)
    ]
    changes = [Change(ChangeType.APPLIED, "ResourceClaim", "default", f"c{at}", 1, each) for at, each in enumerate(raw)]
    found.take(changes)
    found.keys.clear()
    of_pod = {**pod("p7", gpu="t"), "metadata": {"name": "p7", "uid": "u7"}}
    found.take([Change(ChangeType.APPLIED, "Pod", "default", "p7", 2, msgspec.json.encode(of_pod))])
    assert set(found.keys) == {Key("Pod", "default", "p7"), Key("ResourceClaim", "default", "c7")}
