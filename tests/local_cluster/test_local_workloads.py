"""The controllers of the local cluster, running: workloads of all kinds, life-cycle stages, deletion of owners."""

import asyncio
import logging
import re
from typing import Any

import pytest
from deviceshare_cluster.interface import BindState
from deviceshare_localcluster import Action, LocalCluster, admission
from deviceshare_localcluster.workloads import job_from
from support.controlled import controlled
from support.manifest import manifest
from support.waiting import until


async def names(cluster: LocalCluster, kind: str = "Pod") -> list[str]:
    return sorted(one["metadata"]["name"] for one in await cluster.list(kind))


async def until_count(cluster: LocalCluster, count: int, kind: str = "Pod") -> list[str]:
    return await until(lambda: names(cluster, kind), lambda pods: len(pods) == count)


async def end(cluster: LocalCluster, name: str, phase: str) -> None:
    """Let a pod end, as its kubelet would."""
    from deviceshare_localcluster.kinds import named_key

    pod = await cluster.get("Pod", "default", name)
    assert await cluster.write_status(named_key("Pod", "default", name), pod["metadata"]["uid"], {"phase": phase})


async def bind(cluster: LocalCluster, name: str) -> None:
    pod = await cluster.get("Pod", "default", name)
    assert (await cluster.bind("default", name, pod["metadata"]["uid"], "n1", {})).state is BindState.BOUND


def template(policy: str = "Always", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {f"{k.replace('_', '-')}.stage.kwok.x-k8s.io/delay": v for k, v in annotations.items()},
        },
        "spec": {
            "schedulerName": "volcano", "restartPolicy": policy,
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}],
        },
    }  # fmt: skip


def app(kind: str, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return manifest(
        kind,
        {"name": "web"},
        "apps/v1",
        spec={"replicas": replicas, "selector": selector, "template": template()} | spec,
    )


def job(**spec: Any) -> dict[str, Any]:
    return manifest("Job", {"name": "train"}, "batch/v1", spec={"template": template("Never")} | spec)


async def test_a_deployment_is_scaled_changed_and_deleted(local: LocalCluster) -> None:
    async with controlled(local):
        (applied,) = await local.load([app("Deployment")])
        assert applied.action is Action.CREATED
        first = await until_count(local, 2)
        assert all(re.fullmatch(r"web-\w+-\w{5}", name) for name in first)
        assert len(await names(local, "PodGroup")) == 1

        assert (await local.scale("Deployment", "", "web", 4)).action is Action.SCALED
        assert set(first) < set(await until_count(local, 4))
        assert (await local.scale("Deployment", "", "other", 4)).action is Action.ABSENT

        await local.apply(
            app("Deployment", 3, template=template() | {"metadata": {"labels": {"app": "web", "v": "2"}}})
        )

        async def replaced() -> bool:
            pods = await local.list("Pod")
            return len(pods) == 3 and all(pod["metadata"]["labels"].get("v") == "2" for pod in pods)

        await until(replaced)
        assert len(await names(local, "ReplicaSet")) == 2

        assert (await local.delete("Deployment", "", "web")).action is Action.DELETED
        await until_count(local, 0)
        await until_count(local, 0, "ReplicaSet")
        await until_count(local, 0, "PodGroup")


async def test_a_deleted_pod_of_a_replica_set_is_made_again(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(app("ReplicaSet"))
        first, _ = await until_count(local, 2)
        before = await local.get("Pod", "default", first)
        assert before is not None
        await local.delete("Pod", "default", first)

        async def other() -> bool:
            pods = await local.list("Pod")
            return len(pods) == 2 and before["metadata"]["uid"] not in [pod["metadata"]["uid"] for pod in pods]

        await until(other)


async def test_a_stateful_set_waits_for_each_pod(local: LocalCluster) -> None:
    async with controlled(local) as controller:
        await local.apply(app("StatefulSet", 3))
        for number in range(3):
            await until_count(local, number + 1)
            await asyncio.sleep(0.1)
            assert await names(local) == [f"web-{each}" for each in range(number + 1)]
            await bind(local, f"web-{number}")
        await end(local, "web-1", "Failed")

        async def again() -> bool:
            pod = await local.get("Pod", "default", "web-1")
            return pod is not None and pod["status"]["phase"] == "Pending"

        await until(again)
        await bind(local, "web-1")
        await local.scale("StatefulSet", "", "web", 1)
        assert await until_count(local, 1) == ["web-0"]
        await until(lambda: controller.open == 0)


async def test_a_size_that_admission_refuses_is_not_set(local: LocalCluster) -> None:
    sets = manifest(
        "LeaderWorkerSet",
        {"name": "llm"},
        "leaderworkerset.x-k8s.io/v1",
        spec={"replicas": 1, "leaderWorkerTemplate": {"size": 8, "workerTemplate": template()}},
    )
    await local.apply(sets)
    refused = await local.scale("LeaderWorkerSet", "", "llm", 9999)
    assert refused.action is Action.REFUSED
    assert "at most 10000 pods in all" in str(refused.problem)
    assert (await local.scale("LeaderWorkerSet", "", "llm", 2)).action is Action.SCALED
    stored = await local.get("LeaderWorkerSet", "default", "llm")
    assert stored["spec"]["replicas"] == 2
    assert stored["metadata"]["uid"]


async def test_the_claims_of_a_stateful_set_outlive_its_pods(local: LocalCluster) -> None:
    claims = [{"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    async with controlled(local):
        await local.apply(app("StatefulSet", 2, podManagementPolicy="Parallel", volumeClaimTemplates=claims))
        await until_count(local, 2)
        assert await until_count(local, 2, "PersistentVolumeClaim") == ["data-web-0", "data-web-1"]
        pod = await local.get("Pod", "default", "web-1")
        claim = await local.get("PersistentVolumeClaim", "default", "data-web-1")
        assert claim is not None
        assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}} in pod["spec"]["volumes"]
        assert claim["metadata"]["labels"] == {"tier": "db", "app": "web"}
        await local.scale("StatefulSet", "", "web", 1)
        assert await until_count(local, 1) == ["web-0"]
        await local.scale("StatefulSet", "", "web", 2)
        await until_count(local, 2)
        kept = await local.get("PersistentVolumeClaim", "default", "data-web-1")
        assert kept["metadata"]["uid"] == claim["metadata"]["uid"], "the new pod gets the claim of the one before"


async def test_a_job_runs_to_completion_by_its_stages(local: LocalCluster) -> None:
    timed = template("Never", pod_complete="200ms")
    async with controlled(local):
        await local.apply(job(parallelism=1, completions=2, completionMode="Indexed", template=timed))
        (first,) = await until_count(local, 1)
        await bind(local, first)
        (second,) = (name for name in await until_count(local, 2) if name != first)
        await bind(local, second)

        async def complete() -> bool:
            stored = await local.get("KubernetesJob", "default", "train")
            assert stored is not None
            return [one["type"] for one in stored["status"]["conditions"]] == ["Complete"]

        await until(complete)
        assert {pod["status"]["phase"] for pod in await local.list("Pod")} == {"Succeeded"}
        await local.delete("Pod", "default", first)
        await asyncio.sleep(0.2)
        assert await names(local) == [second]


async def test_a_failed_pod_of_a_job_is_replaced_until_its_limit(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(backoffLimit=1))
        (first,) = await until_count(local, 1)
        await end(local, first, "Failed")
        (second,) = (name for name in await until_count(local, 2) if name != first)
        await end(local, second, "Failed")

        async def failed() -> bool:
            stored = await local.get("KubernetesJob", "default", "train")
            return stored is not None and [one["type"] for one in stored["status"]["conditions"]] == ["Failed"]

        await until(failed)
        assert await names(local) == sorted([first, second])


async def test_a_suspended_job_resumes(local: LocalCluster) -> None:
    async with controlled(local):
        await local.apply(job(suspend=True))
        await asyncio.sleep(0.2)
        assert await names(local) == []
        await local.apply(job(suspend=False))
        await until_count(local, 1)
        await local.apply(job(suspend=True))
        await until_count(local, 0)


async def test_jobs_of_both_groups_may_have_one_name(local: LocalCluster) -> None:
    volcano = manifest("Job", {"name": "train"}, spec={"tasks": [{"name": "w", "replicas": 1, "template": template()}]})
    async with controlled(local):
        results = await local.load([volcano, job()])
        assert [(each.kind, each.action) for each in results] == [
            ("Job", Action.CREATED),
            ("KubernetesJob", Action.CREATED),
        ]
        assert "train-w-0" in await until_count(local, 2)
        await local.delete("KubernetesJob", "", "train")
        assert await until_count(local, 1) == ["train-w-0"]


async def test_workloads_whose_pods_would_have_one_name_all_get_their_pods(local: LocalCluster) -> None:
    """Names depend on prefix and namespace: those of a Job and a ReplicaSet, of an index and of a Job train-0."""
    given = [
        job(),
        app("ReplicaSet", 1) | {"metadata": {"name": "train"}},
        job(completions=1, completionMode="Indexed") | {"metadata": {"name": "run"}},
        job() | {"metadata": {"name": "run-0"}},
    ]
    async with controlled(local) as controller:
        for one in given:
            await local.apply(one)
        await until_count(local, 4)
        await until(lambda: not controller.open)
        owners = {(pod["metadata"]["ownerReferences"][0]["uid"]) for pod in await local.list("Pod")}
        assert len(owners) == 4
        for name in await names(local):
            await local.delete("Pod", "default", name)
        await until_count(local, 4)


async def test_a_fixed_name_that_another_has_is_reported(local: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": template()["spec"]}
    with caplog.at_level(logging.WARNING, "deviceshare.local_cluster"):
        async with controlled(local):
            await local.apply(pod)
            await local.apply(app("StatefulSet", 2, podManagementPolicy="Parallel"))
            await until_count(local, 2)
            await until(lambda: "StatefulSet default/web: Pod default/web-0 is not made" in caplog.text)


async def test_a_job_made_from_a_cron_job_stays_and_goes_with_it(local: LocalCluster) -> None:
    cron = manifest(
        "CronJob", {"name": "nightly"}, "batch/v1", spec={"schedule": "@daily", "jobTemplate": {"spec": job()["spec"]}}
    )
    async with controlled(local):
        await local.apply(cron)
        stored = await local.get("CronJob", "default", "nightly")
        assert stored is not None
        await local.create(job_from(stored, "now"))
        await until_count(local, 1)
        await local.delete("CronJob", "", "nightly")
        await until_count(local, 0)


async def test_objects_with_generated_names_are_loaded_once_each(local: LocalCluster) -> None:
    nameless = {**job(), "metadata": {"generateName": "train-"}}
    first = await local.load([nameless, nameless])
    assert [each.action for each in first] == [Action.CREATED, Action.CREATED]
    assert len({each.name for each in first}) == 2
    assert {each.action for each in await local.load([nameless, nameless])} == {Action.UNCHANGED}
    assert (await local.apply(nameless)).name == first[0].name


async def test_pods_start_late_and_fail_by_their_stages(local: LocalCluster) -> None:
    slow = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow"}, "spec": template()["spec"]}
    slow["metadata"] |= {
        "annotations": {"pod-ready.stage.kwok.x-k8s.io/delay": "1500ms"},
        "labels": {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"},
    }
    await local.create(slow)
    seen = []
    async with controlled(local):
        await bind(local, "slow")

        async def ended() -> bool:
            pod = await local.get("Pod", "default", "slow")
            assert pod is not None
            if pod["status"]["phase"] not in seen:
                seen.append(pod["status"]["phase"])
            return pod["status"]["phase"] == "Failed"

        await until(ended)
    assert seen == ["Pending", "Running", "Failed"]


async def test_stages_go_on_after_a_restart_of_the_controllers(local: LocalCluster) -> None:
    timed = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "timed"}, "spec": template("Never")["spec"]}
    timed["metadata"]["annotations"] = {"pod-complete.stage.kwok.x-k8s.io/delay": "100ms"}
    await local.create(timed)
    await bind(local, "timed")
    async with controlled(local):

        async def ended() -> bool:
            pod = await local.get("Pod", "default", "timed")
            return pod is not None and pod["status"]["phase"] == "Succeeded"

        await until(ended)


async def test_an_invalid_stage_is_named_once(local: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    bad = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": template("Never")["spec"]}
    bad["metadata"]["annotations"] = {"pod-complete.stage.kwok.x-k8s.io/delay": "soon"}
    await local.create(bad)
    with caplog.at_level(logging.WARNING, "deviceshare.local_cluster"):
        async with controlled(local):
            await bind(local, "bad")
            await until(lambda: any("'soon' is not a duration" in each.getMessage() for each in caplog.records))
    assert sum("'soon'" in each.getMessage() for each in caplog.records) == 1


async def test_a_pytorch_job_and_its_group_come_and_go(local: LocalCluster) -> None:
    replicas = {"Worker": {"replicas": 3, "template": template("Never")}}
    training = manifest("PyTorchJob", {"name": "llm"}, "kubeflow.org/v1", spec={"pytorchReplicaSpecs": replicas})
    async with controlled(local):
        await local.apply(training)
        assert await until_count(local, 3) == ["llm-worker-0", "llm-worker-1", "llm-worker-2"]
        assert await names(local, "PodGroup") == ["llm"]
        await local.delete("PyTorchJob", "", "llm")
        await until_count(local, 0)
        await until_count(local, 0, "PodGroup")


async def test_dependents_of_a_workload_that_was_never_here_stay(local: LocalCluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": True}
    pod = manifest("Pod", {"name": "replica", "ownerReferences": [owner]}, spec=template()["spec"])
    async with controlled(local):
        await local.load([pod, app("ReplicaSet", 1)])
        assert "replica" in await until_count(local, 2)
        await local.delete("ReplicaSet", "", "web")
        assert await until_count(local, 1) == ["replica"]


async def test_a_pod_that_is_refused_is_named(local: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    refused = template()
    refused["spec"]["priorityClassName"] = "missing"
    with caplog.at_level(logging.WARNING, "deviceshare.local_cluster"):
        async with controlled(local):
            await local.apply(app("ReplicaSet", 1, template=refused))
            await until(lambda: any("priorityClassName" in each.getMessage() for each in caplog.records))


async def test_objects_of_unexpected_forms_stop_no_others(
    local: LocalCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that admission let through, such as those of an earlier version."""
    monkeypatch.setattr(admission, "_admit_status", lambda status: None)
    monkeypatch.setattr(admission, "_admit_owners", lambda owners: None)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd", "ownerReferences": [5]}}
    with caplog.at_level(logging.WARNING, "deviceshare.local_cluster"):
        async with controlled(local):
            await local.apply(service)
            await local.apply(job() | {"status": {"conditions": [5]}})
            await local.apply(
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "status": {"phase": 0}}
            )
            await local.apply(app("ReplicaSet"))
            await until_count(local, 3)
    assert "odd: is not read" in caplog.text
    assert "train" not in caplog.text, "what is wrong is omitted"
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1
