"""`deviceshare check` reports what `deviceshare up` reports: for all examples, and for manifests broken on purpose."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.example_cluster import EXAMPLES
from support.running import COMMAND

CONF = EXAMPLES / "volcano-scheduler.conf"
UNKNOWN_MODE = {"volcano.sh/vgpu-mode": "time-slicing"}
VGPU = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1000}


def template(limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", "resources": {"limits": limits}}]
    labels = {"app": "broken", "ring-controller.atlas": "ascend-310P", "vnpu-dvpp": "null"}
    return {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"schedulerName": "volcano", "containers": containers, **spec},
    }


def manifest(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def pod(name: str, limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    found = template(limits, annotations, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **found, "metadata": {"name": name, **found["metadata"]}}


def job(name: str, made: dict[str, Any], task: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    tasks = [{"name": "t", "replicas": 2, "template": made, **(task or {})}]
    return manifest("batch.volcano.sh/v1alpha1", "Job", name, spec={"tasks": tasks, **spec})


def worker(made: dict[str, Any]) -> dict[str, Any]:
    return {"Worker": {"replicas": 1, "template": made}}


SELECTOR = {"matchLabels": {"app": "broken"}}
BROKEN = [
    job("three-cores", template({"huawei.com/npu-core": 3})),
    job("mode-of-a-task", template(VGPU, UNKNOWN_MODE)),
    job("near-in-the-network", template(VGPU), networkTopology={"mode": "hard", "highestTierAllowed": 1}),
    job("near-in-the-node", template(VGPU), {"topologyPolicy": "single-numa-node"}),
    job("of-no-queue", template(VGPU), {"replicas": 1}, queue="made-by-up"),
    job("negative", template({"volcano.sh/vgpu-number": -1})),
    job("too-many", template(VGPU), {"minAvailable": 3}),
    manifest(
        "apps/v1", "Deployment", "deployed",
        spec={"replicas": 2, "selector": SELECTOR, "template": template(VGPU, UNKNOWN_MODE)},
    ),
    manifest("apps/v1", "StatefulSet", "stateful",
             spec={"replicas": 1, "selector": SELECTOR, "serviceName": "s", "template": template(VGPU, UNKNOWN_MODE)}),
    manifest("batch/v1", "Job", "of-kubernetes",
             spec={"template": template(VGPU, UNKNOWN_MODE, restartPolicy="Never")}),
    manifest("kubeflow.org/v1", "PyTorchJob", "torch",
             spec={"pytorchReplicaSpecs": worker(template(VGPU, UNKNOWN_MODE))}),
    manifest("ray.io/v1", "RayCluster", "ray", spec={"headGroupSpec": {"rayStartParams": {},
             "template": template(VGPU, UNKNOWN_MODE)}, "workerGroupSpecs": []}),
    manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leading",
             spec={"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template(VGPU, UNKNOWN_MODE)}}),
    manifest("jobset.x-k8s.io/v1alpha2", "JobSet", "set", spec={"replicatedJobs": [{"name": "a", "template": {"spec": {
             "template": template(VGPU, UNKNOWN_MODE, restartPolicy="Never")}}}]}),
    manifest("apps/v1", "DaemonSet", "daemon", spec={"selector": SELECTOR, "template": template(VGPU)}),
    manifest("networking.k8s.io/v1", "NetworkPolicy", "policy", spec={"podSelector": {}}),
    manifest("scheduling.volcano.sh/v1beta1", "PodGroup", "short", spec={"minMember": 3}),
    pod("of-a-short-group", VGPU, {"scheduling.k8s.io/group-name": "short"}),
    pod("of-a-group-that-is-missing", VGPU, {"scheduling.k8s.io/group-name": "nowhere"}),
    pod("in-a-queue-that-is-missing", VGPU, {"scheduling.volcano.sh/queue-name": "nowhere"}),
    pod("gated", VGPU, schedulingGates=[{"name": "wait.example"}]),
    pod("claims", VGPU, resourceClaims=[{"name": "x", "resourceClaimName": "y"}]),
    pod("many-cards", {"volcano.sh/vgpu-number": 40}),
    pod("of-a-number", VGPU, nodeSelector={"a": 1}),
]  # fmt: skip


def run(*arguments: str, directory: Path) -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(directory / "run"), "TMPDIR": str(directory)}
    done = subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def checked(manifests: Path, directory: Path) -> tuple[int, dict[str, Any]]:
    return run("check", f"local:{manifests}", "--conf", str(CONF), "-o", "json", directory=directory)


def reasons(finding: dict[str, Any]) -> dict[str, str]:
    """Return by pod what `up` would show as its reason."""
    name = finding["object"]
    pods = [name, *(f"Pod {other}" for other in finding["others"])]
    if finding["expected"] == "not to be used":
        return dict.fromkeys(pods, f"the pod uses {finding['field']}, which is not evaluated yet.")
    if finding["field"]:
        problem = f"{finding['field']}: {finding['value']!r} is not valid: expected {finding['expected']}"
        return {each: f"{each}: {problem}" for each in pods}
    return {each: finding["value"].replace(f"{name}: ", f"{each}: ") for each in pods}


def plain(reason: str) -> str:
    """Return a reason without the uids of Jobs; only its beginning if it depends on what is free at the moment."""
    if "Insufficient" in reason:
        return reason.partition(": ")[0]
    return re.sub(r"-(simulated-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})", "", reason)


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("manifests") / "all"
    shutil.copytree(EXAMPLES, found)
    (found / "broken.yaml").write_text(yaml.safe_dump_all(BROKEN))
    (found / "unreadable.yaml").write_text("kind: [")
    return found


@pytest.mark.system
def test_check_reports_what_up_reports(manifests: Path, tmp_path: Path) -> None:
    options = ("--cluster", f"local:{manifests}", "--conf", str(CONF), "--metrics-port", "0")
    status, up = run("up", *options, "--until-settled", "--json", directory=tmp_path)
    rejected = {each["object"] for each in up["rejected"]}
    waiting = {f"Pod {each['namespace']}/{each['name']}": each["reason"] for each in up["pods"] if not each["node"]}
    waiting = {name: reason for name, reason in waiting.items() if name not in rejected}
    assert (status, up["settled"]) == (3, True)
    status, check = checked(manifests, tmp_path)
    assert status == 3
    found: dict[str, str] = {}
    for finding in check["findings"]:
        if finding["object"].startswith("Pod ") and finding["object"] not in rejected:
            found |= reasons(finding)
    assert found.keys() == waiting.keys()
    # The uids of Jobs are those of the run; `up` says first that the gang is not ready.
    differ = {name: waiting[name] for name, reason in found.items() if not plain(waiting[name]).endswith(plain(reason))}
    assert differ == {}
    assert rejected <= {each["object"] for each in check["findings"]}
    assert check["skipped"] == {"DaemonSet": 1, "NetworkPolicy": 1}
    warned = [each["value"] for each in check["findings"] if each["severity"] == "warning"]
    assert [text for text in up["warnings"] if not any(text.endswith(each) for each in warned)] == []


def test_every_refused_example_is_an_error_and_each_other_one_is_not(tmp_path: Path) -> None:
    _, check = checked(EXAMPLES, tmp_path)
    errors = {each["object"].rpartition("/")[2] for each in check["findings"] if each["severity"] == "error"}
    refused = {yaml.safe_load(path.read_text())["metadata"]["name"] for path in (EXAMPLES / "refused").glob("*.yaml")}
    assert {each.removeprefix("Node ") for each in errors} == refused - {"large"}
