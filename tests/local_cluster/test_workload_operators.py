"""Custom resources with pod templates: pods and PodGroups with the names and labels of their operators."""

import hashlib
import re
from typing import Any

import pytest
from deviceshare.model import RequestError
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.workloads import Owned, PodState, all_objects, desired

SAFE = "[bcdfghjklmnpqrstvwxz2456789]"


def admitted(obj: dict[str, Any]) -> dict[str, Any]:
    return admit(obj, uid="uid-1", now="2026-11-21T12:00:00Z", priorities=Priorities()).object


def template(gpus: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": gpus}}}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], **spec}}


def custom(api_version: str, kind: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "run", "namespace": "ai", **(metadata or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def objects(obj: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the PodGroups and pods of a workload, by kind."""
    found: dict[str, list[dict[str, Any]]] = {"PodGroup": [], "Pod": []}
    for each in all_objects(admitted(obj), {}, admitted):
        found[each["kind"]].append(each)
    return found


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def pytorch(**policy: Any) -> dict[str, Any]:
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template()},
        "Worker": {"replicas": 2, "template": template(2)},
    }
    return custom("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=replicas, runPolicy=policy)


def test_a_pytorch_job_is_a_gang_of_the_training_operator():
    found = objects(pytorch())
    assert names(found["Pod"]) == ["run-master-0", "run-worker-0", "run-worker-1"]
    master, _, worker = found["Pod"]
    assert master["metadata"]["labels"] == {
        "app": "x",
        "training.kubeflow.org/job-name": "run",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }
    assert worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "1"
    assert worker["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "run",
        "volcano.sh/task-spec": "worker",
    }
    assert (master["spec"]["schedulerName"], master["spec"]["restartPolicy"]) == ("volcano", "OnFailure")
    (group,) = found["PodGroup"]
    assert group["metadata"]["name"] == "run"
    assert group["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minResources"] == {"cpu": "3", "nvidia.com/gpu": "5"}


def test_the_scheduling_policy_of_a_training_job_makes_its_pod_group():
    (group,) = objects(pytorch(schedulingPolicy={"minAvailable": 2, "queue": "q", "priorityClass": "high"}))["PodGroup"]
    assert group["spec"] == {
        "minMember": 2, "queue": "q", "priorityClassName": "high", "minResources": {"cpu": "2", "nvidia.com/gpu": "3"},
    }  # fmt: skip


def test_a_suspended_training_job_makes_nothing():
    found = desired(admitted(pytorch(suspend=True)), Owned())
    assert (found.created, found.updated) == ((), ())


def test_a_failed_replica_is_made_again_by_its_restart_policy():
    found = desired(admitted(pytorch()), Owned({name: PodState("Failed") for name in ("run-master-0", "run-worker-0")}))
    assert names(list(found.created)) == ["run-worker-0", "run-worker-1"]


def test_the_first_worker_of_a_tf_job_without_a_chief_is_its_master():
    specs = {"PS": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template()}}
    pods = objects(custom("kubeflow.org/v1", "TFJob", tfReplicaSpecs=specs))["Pod"]
    assert names(pods) == ["run-ps-0", "run-worker-0", "run-worker-1"]
    roles = [pod["metadata"]["labels"].get("training.kubeflow.org/job-role") for pod in pods]
    assert roles == [None, "master", None]


def test_an_mpi_job_has_workers_and_a_job_for_its_launcher():
    specs = {
        "Launcher": {"replicas": 1, "template": template(0)},
        "Worker": {"replicas": 2, "template": template(priorityClassName="system-node-critical")},
    }
    found = objects(custom("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=specs))
    launcher, *workers = sorted(found["Pod"], key=lambda pod: "launcher" not in pod["metadata"]["name"])
    assert re.fullmatch(f"run-launcher-{SAFE}{{5}}", launcher["metadata"]["name"])
    assert launcher["metadata"]["labels"]["training.kubeflow.org/job-role"] == "launcher"
    assert names(workers) == ["run-worker-0", "run-worker-1"]
    assert workers[1]["metadata"]["labels"] == {
        "app": "x",
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "run",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-index": "1",
    }
    assert (workers[1]["spec"]["hostname"], workers[1]["spec"]["subdomain"]) == ("run-worker-1", "run")
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in found["Pod"]} == {"run"}
    (group,) = found["PodGroup"]
    assert (group["spec"]["minMember"], group["spec"]["priorityClassName"]) == (3, "system-node-critical")


def test_a_notebook_is_a_stateful_set_of_one_pod():
    notebook = custom("kubeflow.org/v1", "Notebook", template=template(schedulerName="volcano"))
    (pod,) = objects(notebook)["Pod"]
    assert pod["metadata"]["name"] == "run-0"
    assert (pod["metadata"]["labels"]["notebook-name"], pod["metadata"]["labels"]["statefulset"]) == ("run", "run")
    notebook["metadata"]["annotations"] = {"kubeflow-resource-stopped": "2026-11-21T12:00:00Z"}
    assert objects(notebook)["Pod"] == []


def cluster(**more: Any) -> dict[str, Any]:
    group = {"groupName": "gpu", "replicas": 2, "minReplicas": 1, "maxReplicas": 5, "template": template()}
    return {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": [group]} | more


def test_a_ray_cluster_is_a_gang_of_its_head_and_workers():
    labels = {"volcano.sh/queue-name": "ray", "ray.io/priority-class-name": "system-node-critical"}
    found = objects(custom("ray.io/v1", "RayCluster", {"labels": labels}, **cluster()))
    head, *workers = found["Pod"]
    assert head["metadata"]["name"] == "run-head"
    assert all(re.fullmatch(f"run-gpu-worker-{SAFE}{{5}}", name) for name in names(workers))
    assert len(workers) == 2
    assert head["metadata"]["labels"] == {
        "app": "x",
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": "run",
        "ray.io/node-type": "head",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "run-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        "volcano.sh/queue-name": "ray",
    }
    assert workers[0]["metadata"]["labels"]["ray.io/group"] == "gpu"
    assert workers[0]["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "ray-run-pg",
        "volcano.sh/task-spec": "gpu",
    }
    assert workers[0]["spec"]["schedulerName"] == "volcano"
    (group,) = found["PodGroup"]
    assert (group["metadata"]["name"], group["spec"]["minMember"], group["spec"]["queue"]) == ("ray-run-pg", 3, "ray")
    assert group["spec"]["priorityClassName"] == "system-node-critical"


def test_with_the_autoscaler_only_the_least_workers_are_needed():
    found = objects(custom("ray.io/v1", "RayCluster", **cluster(enableInTreeAutoscaling=True)))
    assert (len(found["Pod"]), found["PodGroup"][0]["spec"]["minMember"]) == (3, 2)


def test_pods_of_a_ray_cluster_that_have_ended_are_replaced():
    obj = admitted(custom("ray.io/v1", "RayCluster", **cluster()))
    head, first, second = names(list(desired(obj, Owned()).created))
    states = {head: PodState("Failed"), first: PodState("Succeeded"), second: PodState("Running")}
    now = names(list(desired(obj, Owned(states)).created))
    assert head not in now
    assert first not in now
    assert second in now
    assert len(now) == 2


def test_a_ray_job_has_a_cluster_and_a_submitter():
    found = objects(custom("ray.io/v1", "RayJob", rayClusterSpec=cluster(), entrypoint="python x.py"))
    submitter, *_ = [pod for pod in found["Pod"] if pod["metadata"]["labels"].get("job-name")]
    assert re.fullmatch(f"run-{SAFE}{{5}}", submitter["metadata"]["name"])
    heads = [pod for pod in found["Pod"] if pod["metadata"]["labels"].get("ray.io/node-type") == "head"]
    assert re.fullmatch(f"run-{SAFE}{{5}}-head", heads[0]["metadata"]["name"])
    assert len(found["Pod"]) == 4
    service = objects(custom("ray.io/v1", "RayService", rayClusterConfig=cluster()))
    assert len(service["Pod"]) == 3


def lws(**more: Any) -> dict[str, Any]:
    of_group = {"size": 3, "workerTemplate": template(schedulerName="volcano")}
    return custom(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"annotations": {"scheduling.volcano.sh/queue-name": "serving"}},
        **{"replicas": 2, "leaderWorkerTemplate": of_group} | more,
    )


def test_each_group_of_a_leader_worker_set_is_a_gang():
    found = objects(lws())
    assert sorted(names(found["Pod"])) == ["run-0", "run-0-1", "run-0-2", "run-1", "run-1-1", "run-1-2"]
    pod = next(each for each in found["Pod"] if each["metadata"]["name"] == "run-1-2")
    labels = pod["metadata"]["labels"]
    assert labels["leaderworkerset.sigs.k8s.io/name"] == "run"
    assert labels["leaderworkerset.sigs.k8s.io/group-index"] == "1"
    assert labels["leaderworkerset.sigs.k8s.io/worker-index"] == "2"
    assert labels["leaderworkerset.sigs.k8s.io/group-key"] == hashlib.sha1(b"ai/run-1").hexdigest()
    revision = labels["leaderworkerset.sigs.k8s.io/template-revision-hash"]
    assert pod["metadata"]["annotations"] == {
        "leaderworkerset.sigs.k8s.io/size": "3",
        "leaderworkerset.sigs.k8s.io/leader-name": "run-1",
        "scheduling.k8s.io/group-name": f"run-1-{revision}",
    }
    assert [group["metadata"]["name"] for group in found["PodGroup"]] == [f"run-0-{revision}", f"run-1-{revision}"]
    assert {group["spec"]["minMember"] for group in found["PodGroup"]} == {3}
    assert {group["spec"]["queue"] for group in found["PodGroup"]} == {"serving"}
    assert found["PodGroup"][0]["spec"]["minResources"] == {"cpu": "3", "nvidia.com/gpu": "3"}


def test_workers_start_after_their_leader_if_it_must_be_ready():
    obj = admitted(lws(startupPolicy="LeaderReady", replicas=1))
    first = desired(obj, Owned())
    assert names(list(first.created)) == ["run-0"]
    assert first.updated[0]["spec"]["minMember"] == 1
    assert len(desired(obj, Owned({"run-0": PodState("Running")})).created) == 3


def test_a_group_restarts_as_a_whole():
    obj = admitted(lws())
    states = {"run-0": PodState("Running"), "run-0-1": PodState("Failed"), "run-1": PodState("Running")}
    assert names(list(desired(obj, Owned(states)).created)) == ["run-1", "run-1-1", "run-1-2"]
    kept = lws()
    kept["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
    assert len(desired(admitted(kept), Owned(states)).created) == 6


def test_a_job_set_makes_indexed_jobs_with_its_labels():
    jobs = [
        {"name": "driver", "template": {"spec": {"template": template(0)}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template()}}},
    ]
    obj = custom("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=jobs)
    made = desired(admitted(obj), Owned()).updated
    assert names(list(made)) == ["run-driver-0", "run-workers-0", "run-workers-1"]
    last = made[2]["metadata"]["labels"]
    assert last == {
        "jobset.sigs.k8s.io/jobset-name": "run",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/restart-attempt": "0",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
        "jobset.sigs.k8s.io/global-replicas": "3",
        "jobset.sigs.k8s.io/job-index": "1",
        "jobset.sigs.k8s.io/job-key": hashlib.sha1(b"ai/run-workers-1").hexdigest(),
        "jobset.sigs.k8s.io/job-global-index": "2",
    }
    pods = objects(obj)["Pod"]
    assert len(pods) == 5
    assert re.fullmatch(f"run-workers-1-1-{SAFE}{{5}}", names(pods)[-1])
    assert pods[-1]["metadata"]["labels"].items() >= last.items()
    assert pods[-1]["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert (pods[-1]["spec"]["hostname"], pods[-1]["spec"]["subdomain"]) == ("run-workers-1-1", "run")


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (custom("kubeflow.org/v1", "PyTorchJob"), "spec.pytorchReplicaSpecs"),
        (custom("kubeflow.org/v1", "MPIJob"), "apiVersion"),
        (
            custom("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs={"Worker": {"template": template()}}),
            "spec.mpiReplicaSpecs.Launcher",
        ),
        (custom("ray.io/v1", "RayCluster"), "spec.headGroupSpec"),
        (custom("ray.io/v1", "RayCluster", headGroupSpec={"template": {}}), "spec.headGroupSpec.template.spec"),
        (custom("ray.io/v1", "RayJob"), "spec.clusterSelector"),
        (custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), "spec.leaderWorkerTemplate"),
        (custom("jobset.x-k8s.io/v1alpha2", "JobSet"), "spec.replicatedJobs"),
        (custom("kubeflow.org/v1", "Notebook", template={"spec": {"containers": []}}), "spec.template.spec.containers"),
    ],
)
def test_invalid_custom_resources_are_refused_by_field(obj: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        admitted(obj)
    assert caught.value.problem.field == field


def test_fields_of_a_leader_worker_set_without_an_effect_are_named():
    apart = {f"leaderworkerset.sigs.k8s.io/{each}exclusive-topology": "rack" for each in ("", "subgroup-")}
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    of_group = {"workerTemplate": template(), "volumeClaimTemplates": claims}
    obj = custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", leaderWorkerTemplate=of_group)
    obj["metadata"]["annotations"] = apart
    found = admit(obj, uid="u", now="now", priorities=Priorities()).warnings
    fields = [*(f"metadata.annotations[{name}]" for name in apart), "spec.leaderWorkerTemplate.volumeClaimTemplates"]
    assert [each.field for each in found] == fields
    for field, warning in zip(fields, found, strict=True):
        assert warning.text.startswith(f"LeaderWorkerSet ai/run: {field} is not implemented: ")
    assert not admit(lws(), uid="u", now="now", priorities=Priorities()).warnings


def pods_of(kind: str, many: int) -> tuple[dict[str, Any], str]:
    """Return a workload with ten times as many pods, and the field of their number."""
    match kind:
        case "RayCluster":
            group = {"groupName": "g", "replicas": many, "numOfHosts": 10, "template": template()}
            return custom("ray.io/v1", kind, **cluster(workerGroupSpecs=[group])), "spec.workerGroupSpecs"
        case "LeaderWorkerSet":
            of_group = {"size": 10, "workerTemplate": template()}
            return lws(replicas=many, leaderWorkerTemplate=of_group), "spec.replicas"
        case "JobSet":
            spec = {"parallelism": 10, "template": template()}
            jobs = [{"name": "j", "replicas": many, "template": {"spec": spec}}]
            return custom("jobset.x-k8s.io/v1alpha2", kind, replicatedJobs=jobs), "spec.replicatedJobs"
    roles = {f"Worker{number}": {"replicas": many, "template": template()} for number in range(10)}
    return custom("kubeflow.org/v1", kind, pytorchReplicaSpecs=roles), "spec.pytorchReplicaSpecs"


@pytest.mark.parametrize("kind", ["RayCluster", "LeaderWorkerSet", "JobSet", "PyTorchJob"])
def test_the_pods_of_a_workload_are_bounded_in_all(kind: str) -> None:
    """Replicas times pods of each: both may be 10,000."""
    admitted(pods_of(kind, 1000)[0])
    obj, field = pods_of(kind, 1001)
    with pytest.raises(RequestError) as caught:
        admitted(obj)
    assert (caught.value.problem.field, caught.value.problem.value) == (field, "10010")


def test_unknown_fields_of_pod_templates_are_named():
    found = admit(
        custom("kubeflow.org/v1", "Notebook", template=template(schedulerNme="x")),
        uid="u", now="now", priorities=Priorities(),
    )  # fmt: skip
    assert [each.field for each in found.warnings] == ["spec.template.spec.schedulerNme"]
