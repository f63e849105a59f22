"""`deviceshare fit`: the answers are those of the allocator, and are given in time."""

import gc
import os
import time
from pathlib import Path

import pytest
from deviceshare.model import Card, NodeFact, QueueFact
from deviceshare_bus.core import Now
from deviceshare_bus.subjects import fact
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.state import placement_core
from deviceshare_cli.whatif.fitting import fit
from deviceshare_cli.whatif.manifests import candidates
from deviceshare_cli.whatif.missing import holders
from deviceshare_placement.core import FactReceived, PlacementCore

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  schedulerName: volcano
  containers:
  - name: main
    image: busybox
    resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: MEMORY, volcano.sh/vgpu-cores: CORES}}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  schedulerName: volcano
  minAvailable: 3
  tasks:
  - name: worker
    replicas: 3
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox
          resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: MEMORY}}
"""
SERVED = ("deviceshare", "volcano")
NOW = Now(1.0, 1.0)


def cluster(nodes: int, cards: int, *queues: QueueFact) -> PlacementCore:
    core = placement_core((), 1.0)
    for number in range(nodes):
        name = f"node-{number:04}"
        found = tuple(
            Card(f"GPU-{number}-{index}", index, 10, 32768, 100, "NVIDIA-A100", True, "hami-core")
            for index in range(cards)
        )
        node = NodeFact(name=name, uid=name, allocatable={"cpu": 64000, "memory": 2**38, "pods": 110}, cards=found)
        core.handle(FactReceived(fact("node", name), node), NOW)
    for queue in queues:
        core.handle(FactReceived(fact("queue", queue.name), queue), NOW)
    return core


@pytest.fixture
def wanted(tmp_path: Path):
    def wanted(text: str, memory: int, cores: int = 0):
        (tmp_path / "pod.yaml").write_text(text.replace("MEMORY", str(memory)).replace("CORES", str(cores)))
        return candidates([str(tmp_path / "pod.yaml")], [], SERVED)

    return wanted


@pytest.mark.parametrize("text", [POD, JOB])
def test_a_node_in_the_manifest_is_the_only_one_checked(wanted, text: str) -> None:
    indent = " " * (8 if text is JOB else 2)
    pinned = text.replace(f"\n{indent}containers:", f"\n{indent}nodeName: node-0001\n{indent}containers:")
    (candidate,) = found = wanted(pinned, 10000)
    (warning,) = candidate.warnings
    assert "spec.nodeName is node-0001: the pod would get no devices without a scheduler" in warning
    (answer,) = fit(cluster(3, 2), found, 1, 0, 1.0).asked
    assert {placement.node for _, placement in answer.placed} == {"node-0001"}
    assert not fit(cluster(1, 2), found, 1, 0, 1.0).asked[0].fits


def test_as_many_fit_as_the_cards_have_room_for(wanted) -> None:
    # Two cards of 32768 MiB hold three pods of 10000 MiB each.
    found = fit(cluster(1, 2), wanted(POD, 10000), 4, 100, 1.0)
    assert (found.fitting, found.more, found.most) == (4, 2, False)
    assert fit(cluster(1, 2), wanted(POD, 10000), 1, 3, 1.0)[1:] == (3, True)


def test_what_does_not_fit_names_the_missing_amount_and_the_holders(wanted) -> None:
    core = cluster(1, 1)
    first = fit(core, wanted(POD, 20000), 1, 0, 1.0)
    assert first.asked[0].fits
    found = fit(core, [each.copy(1) for each in wanted(POD, 20000)], 1, 0, 1.0)
    (failed,) = found.asked
    assert not failed.fits
    assert "asked 20000 MiB, at most 12768 MiB free, 7232 MiB missing" in failed.message
    assert holders(core.cluster, failed) == []  # the first one was charged, but holds nothing in the cluster


def test_a_gang_fits_whole_or_not_at_all(wanted) -> None:
    assert fit(cluster(3, 1), wanted(JOB, 20000), 1, 10, 1.0).asked[0].whole
    (failed,) = fit(cluster(2, 1), wanted(JOB, 20000), 1, 0, 1.0).asked
    assert not failed.fits
    assert failed.message.startswith("2 of at least 3 pods of the gang fit: ")


def test_a_limit_of_the_queue_is_named(wanted) -> None:
    limited = QueueFact(name="default", capability={"volcano.sh/vgpu-memory": 15000})
    found = fit(cluster(1, 1, limited), wanted(POD, 10000), 2, 0, 1.0)
    assert found.fitting == 1
    assert "queue 'default' has a capability of 15000 MiB of volcano.sh/vgpu-memory" in found.asked[-1].message


def test_manifests_are_validated(wanted) -> None:
    with pytest.raises(CommandError, match="'-1' is not valid"):
        wanted(POD, -1)
    with pytest.raises(CommandError, match="fit takes Pods and Volcano's Jobs, not Queue"):
        wanted("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n", 1)


def test_the_decision_takes_less_than_100_ms_on_5000_nodes(wanted) -> None:
    pods, refused = wanted(POD, 10000, 30), wanted(POD, 50000)
    seconds = []
    for asked in (pods, refused):
        core = cluster(5000, 8)
        gc.collect()
        began = time.process_time()
        fit(core, asked, 1, 0, 1.0)
        seconds.append(time.process_time() - began)
    assert max(seconds) < float(os.environ.get("DEVICESHARE_FIT_SECONDS", "0.1")), seconds
