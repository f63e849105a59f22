"""Definitions for clusters without Volcano, on a real API server: objects of Volcano users are accepted and kept."""

import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from deviceshare_cluster.interface import Change
from deviceshare_cluster.kube import KubeCluster
from deviceshare_localcluster.pod_groups import pod_group
from support import deploy
from support.apiserver import ApiServer
from support.definitions import installed
from support.manifest import manifest

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
MERGE = "application/merge-patch+json"
EXAMPLES = deploy.ROOT / "examples"


@pytest.fixture(scope="module")
def server(apiserver: ApiServer) -> Iterator[ApiServer]:
    """Give an API server that has the kinds."""
    with installed(apiserver, *deploy.read(deploy.KUBERNETES / "crds")):
        yield apiserver


def group(name: str, **spec: Any) -> dict[str, Any]:
    return manifest("PodGroup", {"name": name, "namespace": "default"}, spec=spec)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_names_are_those_that_users_of_volcano_know(server):
    found = server.request("GET", "/apis/scheduling.volcano.sh/v1beta1")["resources"]
    names = {one["name"]: (one["kind"], one["namespaced"], one.get("shortNames")) for one in found}
    # PodGroups have no status subresource, Queues have one: so do Volcano's.
    assert names == {
        "podgroups": ("PodGroup", True, ["pg", "podgroup-v1beta1"]),
        "queues": ("Queue", False, ["q", "queue-v1beta1"]),
        "queues/status": ("Queue", False, None),
    }


def test_groups_of_the_examples_are_taken(server):
    jobs = [
        obj
        for path in sorted((EXAMPLES / "workloads").rglob("*.yaml"))
        for obj in yaml.safe_load_all(path.read_text())
        if obj and obj["kind"] == "Job"
    ]
    assert jobs
    for job in jobs:
        tasks = [{"minAvailable": task["replicas"], **task} for task in job["spec"]["tasks"]]
        job["spec"] |= {"minAvailable": job["spec"].get("minAvailable", 1), "tasks": tasks}
        job["spec"].setdefault("queue", "default")
        job["metadata"] |= {"uid": "0", "namespace": "default"}
        made = group(job["metadata"]["name"], **pod_group(job, {})["spec"])
        kept = server.request("POST", f"{GROUPS}?dryRun=All&fieldValidation=Strict", made)
        assert kept["spec"] == made["spec"]


def test_queues_of_the_examples_are_taken(server):
    for path in sorted((EXAMPLES / "queues").glob("*.yaml")):
        for obj in yaml.safe_load_all(path.read_text()):
            kept = server.request("POST", f"{QUEUES}?dryRun=All&fieldValidation=Strict", obj)
            assert obj["spec"].items() <= kept["spec"].items()


def test_fields_that_only_volcano_uses_are_kept(server):
    topology = {"mode": "soft", "highestTierAllowed": 2}
    rules = [{"name": "s", "subGroupSize": 2, "networkTopology": topology}]
    kept = server.request("POST", f"{GROUPS}?dryRun=All", group("a", networkTopology=topology, subGroupPolicy=rules))
    assert kept["spec"] == {"networkTopology": topology, "subGroupPolicy": rules, "queue": "default"}
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}}
    kept = server.request("POST", f"{QUEUES}?dryRun=All", queue("a", affinity=affinity, capability={"cpu": 4}))
    assert kept["spec"] == {
        "affinity": affinity,
        "capability": {"cpu": 4},
        "weight": 1,
        "dequeueStrategy": "traverse",
    }


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (GROUPS, group("a", minMember=-1)),
        (GROUPS, group("a", minMember="two")),
        (GROUPS, group("a", queue="No Name")),
        (GROUPS, group("a", minTaskMember={"t": "x"})),
        (QUEUES, queue("a", weight=0)),
        (QUEUES, queue("a", dequeueStrategy="lifo")),
    ],
)
def test_invalid_values_are_refused(server, path, wrong):
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.request("POST", f"{path}?dryRun=All", wrong)
    assert refused.value.code == 422
    refused.value.close()


def test_the_status_is_where_volcano_has_it(server):
    server.request("POST", GROUPS, group("status", minMember=2))
    server.request("POST", QUEUES, queue("status"))
    try:
        conditions = [{"type": "Unschedulable", "status": "True", "transitionID": "1", "reason": "NotEnoughResources"}]
        status: dict[str, Any] = {"phase": "Inqueue", "running": 0, "conditions": conditions}
        kept = server.request("PATCH", f"{GROUPS}/status", {"status": status}, MERGE)
        assert kept["status"] == status
        status = {"state": "Open", "pending": 1, "allocated": {"cpu": "1"}}
        opened = server.request("PATCH", f"{QUEUES}/status", {"status": status}, MERGE)
        assert opened["status"] == {"state": "Open"}, "without Volcano's queue controller a new queue is open"
        assert server.request("PATCH", f"{QUEUES}/status/status", {"status": status}, MERGE)["status"] == status
    finally:
        server.request("DELETE", f"{GROUPS}/status")
        server.request("DELETE", f"{QUEUES}/status")


async def test_a_cluster_finds_them(server):
    server.request("POST", QUEUES, queue("found"))
    try:
        async with KubeCluster(str(server.kubeconfig())) as cluster:
            async for batch in cluster.watch(["Queue"]):
                names = [item.name for item in batch if isinstance(item, Change)]
                assert names == ["found"]
                break
    finally:
        server.request("DELETE", f"{QUEUES}/found")
