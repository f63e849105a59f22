"""Pods with ResourceClaims on a real API server: which devices are allocated, and what remains after a failure."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from deviceshare_binder import service as binder
from deviceshare_cluster.kube import KubeCluster
from support import deploy
from support.apiserver import ApiServer, program
from support.definitions import installed
from support.devices import DRIVER, place_device_claims
from support.kube_cluster import CleanCluster
from support.kube_scene import Scene, following, node, pod
from support.service import at_work

OPTIONS = {"plugin_patience": 60.0, "reports_per_second": 200.0, "dry_run": False}
FINALIZER = "resource.kubernetes.io/delete-protection"
API = {"apiVersion": "resource.k8s.io/v1"}
Json = dict[str, Any]


def spec(count: int) -> Json:
    """Return the spec of a claim of so many GPUs."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


class Devices(Scene):
    """Two nodes with two GPUs each, and one DeviceClass."""

    async def claim(self, name: str, count: int = 1) -> None:
        metadata = {"name": name, "namespace": "default"}
        await self.cluster.create({**API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec(count)})

    async def use(self, name: str, *claims: str, **annotations: str) -> None:
        found = pod(name, asks={"cpu": "100m"}, **annotations)
        found["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
        found["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
        await self.cluster.create(found)

    async def read(self, name: str) -> Json:
        found = await self.cluster.get("ResourceClaim", "default", name)
        assert found is not None
        return found

    async def devices(self, name: str) -> list[tuple[str, str]]:
        """Return the devices of a claim, which is protected and reserved if it has some."""
        found = await self.read(name)
        status = found.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        protected = FINALIZER in (found["metadata"].get("finalizers") or ())
        assert protected == bool(results)
        assert bool(status.get("reservedFor")) == bool(results)
        return sorted((each["pool"], each["device"]) for each in results)

    async def node_of(self, name: str) -> str:
        found = await self.cluster.get("Pod", "default", name)
        return str(found["spec"].get("nodeName", ""))

    async def reason(self, name: str) -> str:
        """Return why a pod waits, as its conditions say."""
        found = await self.cluster.get("Pod", "default", name)
        conditions = ((found or {}).get("status") or {}).get("conditions") or []
        return "".join(each.get("message", "") for each in conditions)

    async def until_bound(self, *names: str) -> list[str]:
        for name in names:
            await self.until(lambda name=name: self.node_of(name))
        return [await self.node_of(name) for name in names]


@pytest.fixture
def claim_controller(apiserver: ApiServer) -> Iterator[None]:
    """Run kube-controller-manager: nothing else makes, frees and deletes claims."""
    apiserver.run_claim_controller(program("kube-controller-manager"))
    yield
    apiserver.end_claim_controller()


@pytest.fixture
def queues(apiserver: ApiServer) -> Iterator[None]:
    """Define Volcano's kinds, before anything watches them."""
    with installed(apiserver, *deploy.read(deploy.KUBERNETES / "crds")):
        yield


@pytest.fixture
async def scene(apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Devices]:
    place_device_claims(monkeypatch)
    monkeypatch.setattr(binder, "open_cluster", lambda kubeconfig, *names: KubeCluster(kubeconfig=kubeconfig))
    async with CleanCluster(apiserver) as cluster, following(apiserver, nats_url, monkeypatch) as context:
        found = Devices(cluster, context)
        await cluster.create({**API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
        for name in ("n1", "n2"):
            await cluster.create(node(name))
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            await cluster.create({**API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}, "spec": spec})
        yield found


async def test_each_pod_gets_devices_of_its_own(scene: Devices, apiserver: ApiServer, nats_url: str) -> None:
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        for number in range(3):
            await scene.claim(f"c{number}")
            await scene.use(f"p{number}", f"c{number}")
        await scene.claim("both", 2)
        nodes = await scene.until_bound("p0", "p1", "p2")
        given = [await scene.devices(f"c{number}") for number in range(3)]
        assert [[where for where, _ in each] for each in given] == [[name] for name in nodes]
        assert max(Counter(device for each in given for device in each).values()) == 1
        await scene.use("large", "both")
        await scene.until(
            lambda: scene.reason("large"), lambda text: "too few free devices for request r (gpu)" in text
        )
        assert await scene.devices("both") == []


async def test_pods_share_a_claim_on_the_node_of_its_devices(
    scene: Devices, apiserver: ApiServer, nats_url: str
) -> None:
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        await scene.claim("shared")
        for name in ("a", "b", "c"):
            await scene.use(name, "shared")
        assert len(set(await scene.until_bound("a", "b", "c"))) == 1
        assert len((await scene.read("shared"))["status"]["reservedFor"]) == 3


@pytest.mark.usefixtures("claim_controller", "queues")
async def test_a_claim_beyond_the_amount_of_its_queue_waits_until_another_ends(
    scene: Devices, apiserver: ApiServer, nats_url: str
) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    await scene.cluster.create({**queue, "spec": {"weight": 1, "capability": {"deviceclass/gpu": "1"}}})
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        for name in ("a", "b"):
            await scene.claim(name)
            await scene.use(name, name, **{"scheduling.volcano.sh/queue-name": "q"})
            if name == "a":
                await scene.until_bound("a")
        text = "queue 'q' has a capability of 1 of deviceclass/gpu, 1 used, 1 asked"
        await scene.until(lambda: scene.reason("b"), lambda reason: text in reason)
        assert await scene.devices("b") == []
        await scene.patch("Pod", "a", {"status": {"phase": "Succeeded"}}, "/status")
        await scene.until_bound("b")
        assert len(await scene.devices("b")) == 1


@pytest.mark.usefixtures("claim_controller")
async def test_claims_of_templates_are_made_allocated_and_deleted_with_their_pods(
    scene: Devices, apiserver: ApiServer, nats_url: str
) -> None:
    at = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
    template = {**API, "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}, "spec": {"spec": spec(2)}}
    apiserver.request("POST", at, template)
    try:
        async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
            for name in ("a", "b", "c"):
                found = pod(name, asks={"cpu": "100m"})
                found["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "t"}]
                await scene.cluster.create(found)
            claims: Json = {}

            async def two_are_bound() -> bool:
                pods = [each for each in await scene.cluster.list("Pod") if each["spec"].get("nodeName")]
                claims.update((each["metadata"]["name"], each["status"]["resourceClaimStatuses"][0]) for each in pods)
                return len(pods) == 2

            await scene.until(two_are_bound)
            given = [await scene.devices(each["resourceClaimName"]) for each in claims.values()]
            assert sorted(given) == [[(name, "gpu-0"), (name, "gpu-1")] for name in ("n1", "n2")]
            (waits,) = {"a", "b", "c"} - set(claims)
            await scene.cluster.delete("Pod", "default", next(iter(claims)))
            await scene.until_bound(waits)
            for name in ("a", "b", "c"):
                await scene.cluster.delete("Pod", "default", name)
            await scene.until(lambda: scene.cluster.list("ResourceClaim"), lambda claims: not claims)
    finally:
        apiserver.request("DELETE", f"{at}/t")


async def test_a_claim_that_another_scheduler_allocates_meanwhile_is_decided_again(
    scene: Devices, apiserver: ApiServer, nats_url: str
) -> None:
    await scene.claim("mine")
    await scene.use("p", "mine")

    async def decided() -> bool:
        return bool(await scene.claimed("n1") | await scene.claimed("n2"))

    await scene.until(decided)
    where = "n2" if await scene.claimed("n1") else "n1"
    field = {"key": "metadata.name", "operator": "In", "values": [where]}
    result = {"request": "r", "driver": DRIVER, "pool": where, "device": "gpu-1"}
    theirs = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    uid = (await scene.read("mine"))["metadata"]["uid"]
    await scene.cluster.allocate_claim("default", "mine", uid, theirs, ("other", "uid-other"))
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        assert await scene.until_bound("p") == [where]
    assert await scene.devices("mine") == [(where, "gpu-1")]


async def test_nothing_remains_of_a_claim_that_is_refused(
    scene: Devices, apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod is deleted while its claims are being written."""
    written = asyncio.Event()
    allocate = KubeCluster.allocate_claim

    async def deleting(self: KubeCluster, *arguments: Any) -> Any:
        found = await allocate(self, *arguments)
        await scene.cluster.delete("Pod", "default", "p")
        written.set()
        return found

    await scene.claim("mine")
    await scene.use("p", "mine")
    monkeypatch.setattr(KubeCluster, "allocate_claim", deleting)
    async with at_work("binder", binder.main, nats_url, cluster=str(apiserver.kubeconfig()), **OPTIONS):
        await written.wait()

        async def freed() -> bool:
            """Whether the last one of the writes that free a claim is done."""
            found = await scene.read("mine")
            return not found.get("status") and FINALIZER not in (found["metadata"].get("finalizers") or ())

        await scene.until(freed)
        assert await scene.devices("mine") == []
