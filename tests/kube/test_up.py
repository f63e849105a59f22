"""``deviceshare up --cluster kube``: the command as a user starts it, on the cluster that the kubeconfig names."""

import asyncio
import subprocess
from pathlib import Path

import yaml
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_scene import node, pod
from support.running import COMMAND, RunningOnKube
from support.waiting import until


async def test_pods_of_a_live_cluster_are_bound_or_get_a_reason(apiserver: ApiServer, tmp_path: Path) -> None:
    async with CleanCluster(apiserver) as cluster:
        await cluster.create(node())
        await cluster.create(pod("fits", "deviceshare"))
        await cluster.create(pod("another", "another-scheduler"))
        async with RunningOnKube(tmp_path, apiserver.kubeconfig("admin"), "--scheduler-name", "deviceshare") as system:
            await system.bound(cluster, 1, within=200)
            await cluster.create(pod("waits", "deviceshare"))
            conditions = await until(lambda: _conditions(cluster, "waits"))
            waiting = await asyncio.to_thread(deviceshare, system, "describe", "pod", "waits")
            assert "Reason:" in waiting
            assert "FailedScheduling" in waiting
            assert "cards shared by" in await asyncio.to_thread(deviceshare, system, "explain", "pod", "waits")
            named = await asyncio.to_thread(deviceshare, system, "get", "pod", "fits", "-o", "yaml")
            assert yaml.safe_load(named)["spec"]["nodeName"]
        assert conditions == [
            (
                "PodScheduled",
                "0/1 nodes are unavailable: 1 node(s) had cards shared by as many containers as they may be.",
            )
        ]
        there = await cluster.get("Pod", "default", "fits")
        assert there["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,3000,0:"
        assert not (await cluster.get("Pod", "default", "another") or {})["spec"].get("nodeName")


def deviceshare(system: RunningOnKube, *arguments: str) -> str:
    done = subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, env=system.environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _conditions(cluster: CleanCluster, name: str) -> list[tuple[str, str]]:
    there = await cluster.get("Pod", "default", name) or {}
    return [(each["type"], each["message"]) for each in there.get("status", {}).get("conditions", [])]
