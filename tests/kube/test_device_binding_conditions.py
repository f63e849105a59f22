"""Devices with binding conditions on a real API server that serves them; the test sets them as a driver does."""

from pathlib import Path
from typing import Any

from support.agents.api import MERGE
from support.device_cluster import CLAIMS_AT, PODS_AT, DeviceCluster, claiming_pod, device_cluster, devices_of
from support.devices import DRIVER
from support.waiting import until

SERVED = "--feature-gates=DRADeviceBindingConditions=true"
SLICES_AT = "/apis/resource.k8s.io/v1/resourceslices"
WAITS = {"bindsToNode": True, "bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}


class Driver:
    """A driver with one device that needs no attachment, and one that does."""

    def __init__(self, cluster: DeviceCluster) -> None:
        self.cluster = cluster

    async def publish(self) -> None:
        near = {"spec": {"devices": [{"name": "near"}]}}
        await self.cluster.api.request("PATCH", f"{SLICES_AT}/n0-gpus", near, MERGE)
        pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": [{"name": "far", **WAITS}]}
        far = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "fabric"}}
        await self.cluster.create([(SLICES_AT, {**far, "spec": spec})])

    async def claim(self, name: str) -> dict[str, Any]:
        found = await self.cluster.api.get(f"{CLAIMS_AT}/{name}")
        assert found is not None
        return found

    async def use(self, name: str) -> list[tuple[str, str]]:
        """Create a pod with a claim, wait until it has a device, and return it."""
        await self.cluster.create(claiming_pod(name, by_template=False))
        await until(lambda: self.claim(name), devices_of)
        return devices_of(await self.claim(name))

    async def set(self, name: str, condition: str) -> bool:
        """Set a condition of the device of a claim, unless it has conditions; return whether it was set."""
        claim = await self.claim(name)
        if not devices_of(claim) or claim["status"].get("devices"):
            return False
        true = {"type": condition, "status": "True", "reason": "Test", "message": "so it is"}
        status = {
            "driver": DRIVER,
            "pool": "fabric",
            "device": "far",
            "conditions": [{**true, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }
        metadata = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "status": {"devices": [status]}}
        await self.cluster.api.request("PATCH", f"{CLAIMS_AT}/{name}/status", body, MERGE)
        return True

    async def pod(self, name: str) -> dict[str, Any]:
        found = await self.cluster.api.get(f"{PODS_AT}/{name}")
        assert found is not None
        return found

    async def node_of(self, name: str) -> str:
        return str((await self.pod(name))["spec"].get("nodeName", ""))

    async def reason(self, name: str) -> str:
        conditions = ((await self.pod(name)).get("status") or {}).get("conditions") or []
        return "".join(each.get("message", "") for each in conditions)

    async def events(self, name: str) -> list[str]:
        found = await self.cluster.items(PODS_AT.replace("/pods", "/events"))
        named = [each for each in found if each["involvedObject"]["name"] == name]
        return [each["message"] for each in named if each["reason"] == "BindingConditionsPending"]


async def test_a_pod_is_bound_when_its_device_is_attached_and_decided_again_when_that_fails(tmp_path: Path) -> None:
    async with device_cluster(tmp_path, 1, SERVED) as cluster:
        driver = Driver(cluster)
        await driver.publish()
        assert await driver.use("first") == [("n0", "near")], "the one without conditions is preferred"
        await until(lambda: driver.node_of("first"))

        assert await driver.use("second") == [("fabric", "far")]
        text = f"ResourceClaim work/second: device {DRIVER}/fabric/far lacks the condition 'Attached'"
        (event,) = await until(lambda: driver.events("second"))
        assert text in event
        allocation = (await driver.claim("second"))["status"]["allocation"]
        assert allocation["allocationTimestamp"]
        assert allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n0"]
        assert not await driver.node_of("second")

        async def failing() -> str:
            """Let the device fail each time that it is allocated; return why the pod waits."""
            await driver.set("second", "Failed")
            return await driver.reason("second")

        text = f"ResourceClaim work/second: device {DRIVER}/fabric/far has the condition 'Failed' (Test: so it is)"
        await until(failing, lambda reason: text in reason)

        async def attaching() -> str:
            await driver.set("second", "Attached")
            return await driver.node_of("second")

        assert await until(attaching) == "n0", "the device was taken back, and is given again without its status"
        (status,) = (await driver.claim("second"))["status"]["devices"]
        assert [each["type"] for each in status["conditions"]] == ["Attached"]
