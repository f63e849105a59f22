"""What the controllers of the local cluster make is valid on a real API server; a resize is read as it stores it.

The test's API server has no controllers: it gets what the local cluster's make of the same workloads, as a dry run.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from deviceshare.objects import decode_pod
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.kinds import KINDS, kind_of
from deviceshare_localcluster.workloads import WORKLOADS, Owned, PodState, desired, job_from
from support.apiserver import ApiServer
from support.example_cluster import objects

PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "KubernetesJob": "/apis/batch/v1/namespaces/default/jobs",
    "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
}
UID = "0c0ffee0-0000-4000-8000-000000000001"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ONCE = TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
MORE: dict[str, dict[str, Any]] = {
    "batch/v1 CronJob": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": ONCE}}},
    "jobset.x-k8s.io/v1alpha2 JobSet": {
        "replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}],
    },
    "kubeflow.org/v2beta1 MPIJob": {
        "mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}},
    },
    "kubeflow.org/v1 Notebook": {"template": TEMPLATE},
    "ray.io/v1 RayJob": {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}},
    "batch/v1 Job": {"completions": 2, "completionMode": "Indexed", "template": ONCE},
}  # fmt: skip


def workloads() -> Iterator[dict[str, Any]]:
    versions = {(kind.api_version, kind.kind) for name, kind in KINDS.items() if name in WORKLOADS and name != "Job"}
    for obj in objects().values():
        if (obj["apiVersion"], obj["kind"]) in versions and not obj["spec"].get("suspend"):
            yield obj
    for name, spec in MORE.items():
        version, kind = name.split()
        yield {"apiVersion": version, "kind": kind, "metadata": {"name": "run"}, "spec": spec}


def admitted(obj: dict[str, Any]) -> dict[str, Any]:
    return admit(obj, uid=UID, now="2026-11-21T12:00:00Z", priorities=Priorities()).object


def tree(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a workload and all that is made of it, as its controllers send it."""
    yield obj
    stored = admitted(obj)
    if kind_of(stored) not in WORKLOADS:
        return
    first = desired(stored, Owned())
    running = {each["metadata"]["name"]: PodState("Running") for each in first.created}
    for each in (*desired(stored, Owned(running)).created, *first.updated):
        yield from tree(each)
    if kind_of(stored) == "CronJob":
        yield from tree(job_from(stored, "now"))


@pytest.mark.parametrize("workload", list(workloads()), ids=lambda obj: f"{obj['kind']}-{obj['metadata'].get('name')}")
def test_the_api_server_accepts_what_controllers_make(apiserver: ApiServer, workload: dict[str, Any]) -> None:
    accepted = []
    for obj in tree(workload):
        path = PATHS.get(kind_of(admitted(obj)))
        if path is None:
            continue  # a custom resource, of which the API server has no definition
        sent = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
        stored = apiserver.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", sent)
        for field in ("labels", "annotations"):
            given = obj["metadata"].get(field) or {}
            assert (stored["metadata"].get(field) or {}).items() >= given.items()
        accepted.append(obj["kind"])
    assert accepted.count("Pod") >= 1


def test_a_resize_is_read_from_the_api_server(apiserver: ApiServer) -> None:
    path = PATHS["Pod"]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec = {"containers": [container], "schedulerName": "none", "nodeName": "n1"}
    apiserver.request("POST", path, {"metadata": {"name": "resized"}, "spec": spec})
    try:
        resources = {"requests": {"cpu": "3", "memory": "1Gi"}}
        status = {
            "name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "resources": resources,
            "allocatedResources": {"cpu": "2", "memory": "1Gi"},
        }  # fmt: skip
        merge = "application/merge-patch+json"
        patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
        apiserver.request("PATCH", f"{path}/resized/status", patch, merge)
        stored = apiserver.request("GET", f"{path}/resized")
        assert dict(decode_pod(json.dumps(stored).encode()).ask.containers[0].resources) == {
            "cpu": 3000,
            "memory": 2**30,
        }
    finally:
        apiserver.request("DELETE", f"{path}/resized?gracePeriodSeconds=0")
