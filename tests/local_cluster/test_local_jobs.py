"""Jobs become PodGroups and pods with Volcano's names, labels and annotations, and the changes of its plugins."""

import base64
from typing import Any

import pytest
from deviceshare.model.problems import RequestError
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.jobs import companion_objects, pod_maker, pod_names
from deviceshare_localcluster.pod_groups import pod_group

UID = "0f6c7d5e-6c2b-4d0a-9a58-0b8f1c2d3e4f"


def admitted_job(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ai"} | (metadata or {}),
        "spec": {"queue": "training", "tasks": [task("ps", 1), task("my-worker", 3, **{"nvidia.com/gpu": "2"})]} | spec,
    }
    return admit(job, uid=UID, now="2026-11-21T12:00:00Z", priorities=Priorities()).object


def task(name: str, replicas: int, **limits: str) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"} | limits}}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": {"note": "x"}},
        "spec": {"containers": [container]},
    }
    return {"name": name, "replicas": replicas, "template": template}


@pytest.mark.parametrize(
    ("replicas", "field"), [([2**31 - 1], "spec.tasks[0].replicas"), ([5_000, 5_001], "spec.tasks")]
)
def test_a_job_of_more_pods_than_the_local_cluster_makes_is_refused(replicas: list[int], field: str) -> None:
    tasks = [task(f"t{index}", count) for index, count in enumerate(replicas)]
    with pytest.raises(RequestError, match="at most 10000") as refused:
        admitted_job(plugins={"svc": []}, tasks=tasks)
    assert refused.value.problem.field == field
    assert len(pods_of(admitted_job(tasks=[task("t", 10_000)]))) == 10_000


def pods_of(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: pod_maker(job, of)(index) for name, of, index in pod_names(job)}


def test_pods_are_named_labelled_and_annotated_as_by_volcano() -> None:
    job = admitted_job()
    pods = pods_of(job)
    assert list(pods) == ["train-ps-0", "train-my-worker-0", "train-my-worker-1", "train-my-worker-2"]
    assert all(pod["metadata"]["name"] == name for name, pod in pods.items())
    metadata = pods["train-my-worker-2"]["metadata"]
    assert metadata["namespace"] == "ai"
    assert metadata["labels"] == {
        "app": "my-worker",
        "volcano.sh/task-index": "2",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "my-worker",
        "volcano.sh/job-namespace": "ai",
        "volcano.sh/queue-name": "training",
    }
    assert metadata["annotations"] == {
        "note": "x",
        "volcano.sh/task-index": "2",
        "volcano.sh/task-spec": "my-worker",
        "scheduling.k8s.io/group-name": f"train-{UID}",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "training",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "train-my-worker",
        "volcano.sh/job-retry-count": "0",
    }
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_scheduler_and_priority_come_from_the_job_where_the_template_has_none() -> None:
    own = task("own", 1)
    own["template"]["spec"] |= {"schedulerName": "mine", "priorityClassName": "system-node-critical"}
    job = admitted_job(schedulerName="volcano", priorityClassName="system-cluster-critical", tasks=[task("t", 1), own])
    specs = {name: pod["spec"] for name, pod in pods_of(job).items()}
    assert specs["train-t-0"]["schedulerName"] == "volcano"
    assert specs["train-t-0"]["priorityClassName"] == "system-cluster-critical"
    assert specs["train-own-0"]["schedulerName"] == "mine"
    assert specs["train-own-0"]["priorityClassName"] == "system-node-critical"


def test_annotations_and_labels_of_the_job_that_its_pods_inherit() -> None:
    metadata = {
        "annotations": {"volcano.sh/preemptable": "true", "volcano.sh/jdb-min-available": "1", "other": "x"},
        "labels": {"volcano.sh/preemptable": "true", "other": "x"},
    }
    pod = pods_of(admitted_job(metadata))["train-ps-0"]["metadata"]
    assert pod["annotations"]["volcano.sh/preemptable"] == "true"
    assert pod["annotations"]["volcano.sh/jdb-min-available"] == "1"
    assert pod["labels"]["volcano.sh/preemptable"] == "true"
    assert "other" not in pod["annotations"]
    assert "other" not in pod["labels"]


def test_the_pod_group() -> None:
    group = pod_group(admitted_job({"labels": {"team": "x"}}, minAvailable=2, priorityClassName="high"), {})
    assert group["metadata"]["name"] == f"train-{UID}"
    assert group["metadata"]["labels"] == {"team": "x"}
    assert group["metadata"]["ownerReferences"][0]["uid"] == UID
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"ps": 1, "my-worker": 3},
        "queue": "training",
        "priorityClassName": "high",
        # One ps and one worker. What a container of a template has only limits for is no request, as with Volcano.
        "minResources": {"count/pods": "2", "limits.cpu": "3", "limits.memory": "2Gi", "pods": "2"},
    }


def test_env_numbers_every_container() -> None:
    spec = task("w", 2)
    spec["template"]["spec"]["initContainers"] = [{"name": "init", "image": "i", "env": [{"name": "A", "value": "b"}]}]
    pod = pods_of(admitted_job(plugins={"env": []}, tasks=[spec]))["train-w-1"]["spec"]
    number = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert pod["containers"][0]["env"] == number
    assert pod["initContainers"][0]["env"] == [{"name": "A", "value": "b"}, *number]


def test_svc_gives_hosts_names_and_a_mount() -> None:
    job = admitted_job(plugins={"svc": []})
    pod = pods_of(job)["train-my-worker-1"]["spec"]
    assert (pod["hostname"], pod["subdomain"]) == ("train-my-worker-1", "train")
    variables = {one["name"]: one["valueFrom"]["configMapKeyRef"] for one in pod["containers"][0]["env"]}
    assert variables == {
        name: {"name": "train-svc", "key": name}
        for name in ("VC_PS_HOSTS", "VC_PS_NUM", "VC_MY_WORKER_HOSTS", "VC_MY_WORKER_NUM")
    }
    assert pod["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]

    objects = {one["kind"]: one for one in companion_objects(job, {})}
    assert set(objects) == {"PodGroup", "ConfigMap", "Service"}
    hosts = [f"train-my-worker-{index}.train" for index in range(3)]
    assert objects["ConfigMap"]["metadata"]["name"] == "train-svc"
    assert objects["ConfigMap"]["data"] == {
        "ps.host": "train-ps-0.train",
        "VC_PS_HOSTS": "train-ps-0.train",
        "VC_PS_NUM": "1",
        "my_worker.host": "\n".join(hosts),
        "VC_MY_WORKER_HOSTS": ",".join(hosts),
        "VC_MY_WORKER_NUM": "3",
    }
    assert objects["Service"]["metadata"]["name"] == "train"
    assert objects["Service"]["spec"]["clusterIP"] == "None"
    assert all(one["metadata"]["ownerReferences"][0]["uid"] == UID for one in objects.values())


def test_svc_without_variables() -> None:
    pod = pods_of(admitted_job(plugins={"svc": ["--inject-hosts-env=false"]}))["train-ps-0"]["spec"]
    assert "env" not in pod["containers"][0]
    assert pod["containers"][0]["volumeMounts"]


def test_ssh_mounts_its_secret() -> None:
    job = admitted_job(plugins={"ssh": ["--ssh-port=2222", "--ssh-public-key=ssh-rsa AAAA"]})
    pod = pods_of(job)["train-ps-0"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "train-ssh"
    assert volume["secret"]["defaultMode"] == 0o600
    assert [item["key"] for item in volume["secret"]["items"]] == ["id_rsa", "id_rsa.pub", "authorized_keys", "config"]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "train-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}]
    (secret,) = [one for one in companion_objects(job, {}) if one["kind"] == "Secret"]
    files = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    assert files["authorized_keys"] == "ssh-rsa AAAA"
    assert "Host train-ps-0\n  HostName train-ps-0.train\n  Port 2222\n" in files["config"]


def test_a_template_that_names_its_host_keeps_it() -> None:
    named = task("w", 2)
    named["template"]["spec"] |= {"hostname": "head", "subdomain": "ring"}
    job = admitted_job(plugins={"svc": []}, tasks=[named])
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods_of(job).values()} == {("head", "ring")}
    (config,) = [one for one in companion_objects(job, {}) if one["kind"] == "ConfigMap"]
    assert config["data"]["VC_W_HOSTS"] == "head.ring"


def test_volumes_of_the_job_are_mounted_in_every_container() -> None:
    job = admitted_job(volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])
    pod = pods_of(job)["train-ps-0"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}
    assert pod["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": "/data"}]


def test_every_pod_is_admitted() -> None:
    job = admitted_job(plugins={"env": [], "svc": [], "ssh": []})
    for pod in pods_of(job).values():
        assert admit(pod, uid="u", now="now", priorities=Priorities()).warnings == []


def test_creating_pods_does_not_change_the_job() -> None:
    plugins = {"env": [], "svc": [], "ssh": []}
    job = admitted_job(plugins=plugins)
    pods_of(job)
    companion_objects(job, {})
    assert job == admitted_job(plugins=plugins)
