"""`simulate cluster`: a queue is not held by a job that can never run."""

from pathlib import Path

import pytest
from support.card_objects import MEMORY, node, waiting
from support.simulate_command import run_of, simulate_cluster
from support.simulated_clusters import placements

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: capacity
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.PromiseReturnEnable: RETURNS}
"""
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"capability": {"volcano.sh/vgpu-memory": str(MEMORY)}},
}
NEVER = {"larger than any card": (2 * MEMORY, {}), "refused": (6000, {"volcano.sh/vgpu-mode": "unknown"})}


@pytest.mark.parametrize(("memory", "annotations"), NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("returns", [True, False])
def test_what_can_never_run_keeps_no_other_out(
    tmp_path: Path, memory: int, annotations: dict[str, str], returns: bool
) -> None:
    (tmp_path / "x.conf").write_text(CONF.replace("RETURNS", str(returns).lower()))
    cluster = [node("a"), QUEUE]
    for day, (name, asked, added) in enumerate((("never", memory, annotations), ("later", 6000, {})), 1):
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"namespace": "default", "name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
            "spec": {"minMember": 1, "queue": "q", "minResources": {"volcano.sh/vgpu-memory": "6000"}},
        }
        pod = waiting(name, asked)
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name, **added}
        cluster += [group, pod]
    run = run_of(simulate_cluster(tmp_path, cluster, "--conf", str(tmp_path / "x.conf"), "--json", live=False))
    placed = {name: node is not None for name, node in placements(run).items()}
    assert placed == {"never": False, "later": returns}
