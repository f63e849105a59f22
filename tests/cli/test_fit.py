"""`deviceshare fit`: the answers are those of the allocator, and are given in time."""

import asyncio
import gc
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from deviceshare.model import (
    HOSTNAME,
    Card,
    ContainerGrant,
    DeviceGrant,
    NodeFact,
    QueueFact,
    Requirement,
    VolumeClaimFact,
    VolumeFact,
)
from deviceshare.scheduler import Scheduler
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.subjects import fact
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.live import open_live
from deviceshare_cli.reading.state import scheduler_of
from deviceshare_cli.runfile import Run
from deviceshare_cli.whatif import fit as command
from deviceshare_cli.whatif.addition import Addition
from deviceshare_cli.whatif.changed_cluster import ClusterChanges, change_cluster
from deviceshare_cli.whatif.fitting import fit
from deviceshare_cli.whatif.manifests import Files, read_files
from deviceshare_cli.whatif.missing import holders
from deviceshare_cli.whatif.unknown_claims import without_unknown_claims
from msgspec.structs import replace
from support.up_manifests import gang

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
JOB = gang("MEMORY")
SERVED = ("deviceshare", "volcano")
NOW = Now(1.0, 1.0)


def cluster(nodes: int, cards: int, *queues: QueueFact) -> Scheduler:
    scheduler = scheduler_of((), 1.0)
    for number in range(nodes):
        name = f"node-{number:04}"
        found = tuple(
            Card(f"GPU-{number}-{index}", index, 10, 32768, 100, "NVIDIA-A100", True, "hami-core")
            for index in range(cards)
        )
        node = NodeFact(
            name=name,
            uid=name,
            allocatable={"cpu": 64000, "memory": 2**38, "pods": 110},
            cards=found,
            labels={HOSTNAME: name},
        )
        scheduler.apply(fact("node", name), node, NOW)
    for queue in queues:
        scheduler.apply(fact("queue", queue.name), queue, NOW)
    return scheduler


@pytest.fixture
def wanted(tmp_path: Path):
    def wanted(text: str, memory: int, cores: int = 0):
        (tmp_path / "pod.yaml").write_text(text.replace("MEMORY", str(memory)).replace("CORES", str(cores)))
        return read_files([str(tmp_path / "pod.yaml")], [], SERVED).candidates

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
    scheduler = cluster(1, 1)
    first = fit(scheduler, wanted(POD, 20000), 1, 0, 1.0)
    assert first.asked[0].fits
    found = fit(scheduler, [each.copy(1) for each in wanted(POD, 20000)], 1, 0, 1.0)
    (failed,) = found.asked
    assert not failed.fits
    assert "asked 20000 MiB, at most 12768 MiB free, 7232 MiB missing" in failed.message
    assert holders(scheduler, failed) == []  # the first one was charged, but holds nothing in the cluster


def test_nodes_that_are_gone_or_added_change_what_fits(wanted) -> None:
    def fitting(*changes: object) -> int:
        scheduler = cluster(2, 2)
        change_cluster(scheduler, ClusterChanges(*changes), 1.0)
        return fit(scheduler, wanted(POD, 30000), 10, 0, 1.0).fitting

    assert fitting() == 4
    assert fitting(("node-0001", "node-0001")) == 2
    assert fitting((), Addition(3, "node-0000")) == 10
    assert fitting(("node-0000",), Addition(1, "node-0000")) == 4, "like a node that is gone"
    with pytest.raises(CommandError, match='--without x: nodes "x" not found: the cluster has node-0000, node-0001'):
        fitting(("x",))
    with pytest.raises(CommandError, match="--like x"):
        fitting((), Addition(1, "x"))


def test_pods_of_nodes_that_are_gone_count_in_no_queue(wanted) -> None:
    def fits(*changes: str) -> bool:
        scheduler = cluster(2, 1, QueueFact(name="default", capability={"volcano.sh/vgpu-memory": 30000}))
        (candidate,) = wanted(POD, 20000)
        (runs,) = candidate.copy(1).pods
        grants = (ContainerGrant("main", 0, "vgpu", (DeviceGrant("GPU-1-0", 0, 20000, 0),)),)
        scheduler.apply(fact("pod", runs.uid), replace(runs, node="node-0001", held=grants, running=True), NOW)
        change_cluster(scheduler, ClusterChanges(changes), 1.0)
        (asked,) = fit(scheduler, [candidate], 1, 0, 1.0).asked
        return bool(asked.fits)

    assert not fits(), "the queue has 10,000 MiB left"
    assert fits("node-0001")


def test_another_configuration_changes_what_fits(wanted, tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(
        "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: deviceshare\n    arguments:\n"
        "      deviceshare.VGPUEnable: false\n"
    )
    scheduler = cluster(1, 1)
    change_cluster(scheduler, ClusterChanges(conf=conf), 1.0)
    assert not fit(scheduler, wanted(POD, 1000), 1, 0, 1.0).asked[0].fits
    conf.write_text("tiers: 3\n")
    with pytest.raises(CommandError, match="tiers"):
        change_cluster(scheduler, ClusterChanges(conf=conf), 1.0)


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
    with pytest.raises(CommandError, match=r"fit takes Pods, workloads .*, not Queue"):
        wanted("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n", 1)


def test_the_decision_takes_less_than_100_ms_on_5000_nodes(wanted) -> None:
    pods, refused = wanted(POD, 10000, 30), wanted(POD, 50000)
    seconds = []
    for asked in (pods, refused):
        scheduler = cluster(5000, 8)
        gc.collect()
        began = time.process_time()
        fit(scheduler, asked, 1, 0, 1.0)
        seconds.append(time.process_time() - began)
    assert max(seconds) < float(os.environ.get("DEVICESHARE_FIT_SECONDS", "0.1")), seconds


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 3
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      schedulerName: volcano
      containers: [{name: c, image: i, resources: {limits: {volcano.sh/vgpu-memory: MEMORY}}}]
"""


def test_the_pods_of_a_deployment_are_one_question(wanted) -> None:
    (candidate,) = wanted(DEPLOYMENT, 10000)
    assert candidate.title == "Deployment default/serve"
    assert len(candidate.pods) == 3
    found = fit(cluster(1, 1), [candidate], 1, 10, 1.0)
    assert found.asked[0].whole
    assert not fit(cluster(1, 1), wanted(DEPLOYMENT, 20000), 1, 0, 1.0).asked[0].whole


def test_each_group_of_a_leader_worker_set_is_a_question(wanted) -> None:
    text = DEPLOYMENT.replace("apps/v1", "leaderworkerset.x-k8s.io/v1").replace("Deployment", "LeaderWorkerSet")
    text = text.replace("  template:", "  leaderWorkerTemplate:\n   size: 2\n   workerTemplate:")
    text = text.replace("  selector: {matchLabels: {app: serve}}\n", "").replace(
        "    metadata: {l", "     metadata: {l"
    )
    text = text.replace("    spec:\n", "     spec:\n").replace("      schedulerName", "       schedulerName")
    text = text.replace("      containers", "       containers")
    found = wanted(text, 10000)
    assert [len(candidate.pods) for candidate in found] == [2, 2, 2]
    assert all(candidate.group is not None and candidate.group.min_member == 2 for candidate in found)


VOLUMES = """  volumes:
  - {name: known, persistentVolumeClaim: {claimName: known}}
  - {name: new, persistentVolumeClaim: {claimName: new}}
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
"""


def test_claims_that_no_pod_uses_yet_are_not_evaluated(wanted, monkeypatch, capsys) -> None:
    scheduler = cluster(3, 1)
    terms = ((Requirement(HOSTNAME, "In", ("node-0001",)),),)
    storage = (
        ("volume", "pv", VolumeFact(name="pv", node_terms=terms)),
        ("volumeclaim", "default/known", VolumeClaimFact(key="default/known", volume="pv", bound=True)),
    )
    for kind, key, each in storage:
        scheduler.apply(fact(kind, key), each, NOW)
    pods = wanted(POD.rstrip() + "\n" + VOLUMES, 1000)
    found = without_unknown_claims(pods, scheduler.catalog)
    assert found.warning.endswith("no pod of the cluster uses: default/new, default/a-scratch")
    (one,) = fit(scheduler, found.candidates, 1, 0, 1.0).asked
    assert [place.node for _, place in one.placed] == ["node-0001"], "the claim that is known is evaluated"

    class State:
        target, now = SimpleNamespace(schedulers=SERVED), 1.0

        async def objects(self, kind: str) -> list:
            return []

        async def messages(self, streams: object) -> tuple:
            return ()

    @asynccontextmanager
    async def opened(source: object):
        yield State()

    monkeypatch.setattr(command, "opened", opened)
    monkeypatch.setattr(command, "scheduler_of", lambda *args: cluster(1, 1))
    monkeypatch.setattr(command, "read_files", lambda *args: Files(pods, []))
    collecting = gc.isenabled()
    assert asyncio.run(command.run_fit(None, [], 1, 0, "text", ClusterChanges())) == 0
    assert gc.isenabled() == collecting, "the process may go on to do other things"
    shown = capsys.readouterr()
    assert "Fits now: 1 of 1" in shown.out
    assert "Warning: volumes are not evaluated" in shown.err


async def test_a_bus_that_does_not_answer_is_a_reason(nats_server):
    run = Run(pid=1, bus=nats_server.url, cluster=nats_server.url, metrics="", directory="")
    nats_server.freeze()
    try:
        async with asyncio.timeout(60), open_live(run) as reader:
            with pytest.raises(CommandError, match=r"the bus at nats://.* does not answer within 5 s"):
                await reader.messages(["LEDGER"])
    finally:
        nats_server.thaw()
