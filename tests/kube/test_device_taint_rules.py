"""DeviceTaintRules on a real API server, which serves them in a version that is not the newest."""

from collections.abc import Callable
from pathlib import Path

from support.device_cluster import CLAIMS_AT, PODS_AT, DeviceCluster, claim_of, claiming_pod, device_cluster, devices_of
from support.devices import DRIVER
from support.waiting import until

RULES_AT = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
SERVED = "--runtime-config=resource.k8s.io/v1alpha3=true", "--feature-gates=DRADeviceTaints=true"


async def bound(cluster: DeviceCluster) -> dict[str, str]:
    pods = await cluster.items(PODS_AT)
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}


async def test_a_pod_gets_no_device_that_a_rule_taints(tmp_path: Path) -> None:
    async with device_cluster(tmp_path, 2, *SERVED) as cluster:
        rule = {
            "apiVersion": "resource.k8s.io/v1alpha3",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "repair"},
            "spec": {
                "deviceSelector": {"driver": DRIVER, "pool": "n0"},
                "taint": {"key": "repair", "effect": "NoSchedule"},
            },
        }
        await cluster.create([(RULES_AT, rule)])
        names = [f"p{number}" for number in range(9)]
        await cluster.create(each for name in names for each in claiming_pod(name))

        def are_bound(count: int) -> Callable[[dict[str, str]], bool]:
            return lambda pods: len(pods) >= count

        first = await until(lambda: bound(cluster), are_bound(8))
        assert set(first.values()) == {"n1"}
        (waits,) = set(names) - set(first)

        async def reason() -> str:
            pod = await cluster.api.get(f"{PODS_AT}/{waits}")
            conditions = ((pod or {}).get("status") or {}).get("conditions") or []
            return "".join(each.get("message", "") for each in conditions)

        await until(reason, lambda text: "only tainted devices for request r (gpu)" in text)
        await cluster.api.request("DELETE", f"{RULES_AT}/repair")
        assert (await until(lambda: bound(cluster), are_bound(9)))[waits] == "n0"
        pod = await cluster.api.get(f"{PODS_AT}/{waits}")
        assert pod is not None
        claim = await cluster.api.get(f"{CLAIMS_AT}/{claim_of(pod)}")
        assert claim is not None
        assert [pool for pool, _ in devices_of(claim)] == ["n0"]
