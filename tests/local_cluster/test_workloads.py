"""Deployments, ReplicaSets, StatefulSets, Jobs and CronJobs: names, labels and order of what they make."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from deviceshare.model import RequestError
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.kinds import kind_of
from deviceshare_localcluster.names import generated_name, letters, template_hash
from deviceshare_localcluster.workloads import Desired, Owned, PodState, all_objects, desired, job_from

SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
RUNNING, PENDING, FAILED, SUCCEEDED = (PodState(phase) for phase in ("Running", "Pending", "Failed", "Succeeded"))


def admitted(obj: dict[str, Any], uid: str = "uid-1") -> dict[str, Any]:
    return admit(obj, uid=uid, now="2026-11-21T12:00:00Z", priorities=Priorities()).object


def template(scheduler: str = "volcano", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "volcano.sh/vgpu-number": 1}}}
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def app(kind: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "ai", "annotations": dict(annotations or {})},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), "replicas": 3} | spec,
    }


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ai"},
        "spec": {"template": template(restartPolicy="Never")} | spec,
    }


def made(obj: dict[str, Any], pods: Mapping[str, PodState] | None = None, *workloads: dict[str, Any]) -> Desired:
    return desired(admitted(obj), Owned(pods or {}, workloads))


def names(found: Desired) -> list[str]:
    return [each["metadata"]["name"] for each in found.created]


def owner(obj: dict[str, Any]) -> dict[str, Any]:
    (found,) = obj["metadata"]["ownerReferences"]
    return found


def test_letters_have_the_alphabet_and_length_of_kubernetes():
    assert re.fullmatch(f"{SAFE}{{5}}", letters("a", 1))
    assert letters("a", 1) == letters("a", 1) != letters("a", 2)
    assert re.fullmatch(f"{SAFE}{{1,10}}", template_hash({"b": 1, "a": 2}))
    assert template_hash({"b": 1, "a": 2}) == template_hash({"a": 2, "b": 1}) != template_hash({"a": 1})
    assert len(generated_name("x" * 200, 1)) == 63


def test_a_deployment_makes_a_replica_set_with_the_hash_of_its_template():
    (found,) = made(app("Deployment", {"note": "n"})).updated
    digest = found["metadata"]["labels"]["pod-template-hash"]
    assert found["metadata"]["name"] == f"web-{digest}"
    assert found["metadata"]["annotations"] == {"note": "n", "deployment.kubernetes.io/revision": "1"}
    assert owner(found) == {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-1", "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    assert found["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert found["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    assert found["spec"]["replicas"] == 3


def test_another_template_scales_the_earlier_replica_set_to_0_and_keeps_it():
    (first,) = made(app("Deployment")).updated
    changed = app("Deployment", template=template(hostNetwork=True))
    newest, old = made(changed, {}, admitted(first)).updated
    assert old["metadata"]["name"] == first["metadata"]["name"]
    assert (newest["spec"]["replicas"], old["spec"]["replicas"]) == (3, 0)
    assert newest["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    again, kept = made(changed, {}, admitted(first), admitted(newest)).updated
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert kept["metadata"]["name"] == first["metadata"]["name"]
    assert (
        len(made(changed | {"spec": changed["spec"] | {"revisionHistoryLimit": 0}}, {}, admitted(first)).updated) == 1
    )


def test_a_paused_deployment_keeps_its_template():
    (first,) = made(app("Deployment")).updated
    (only,) = made(app("Deployment", template=template(hostNetwork=True), paused=True), {}, admitted(first)).updated
    assert only["metadata"]["name"] == first["metadata"]["name"]


def test_pods_of_a_replica_set_have_random_letters_and_one_pod_group():
    found = made(app("ReplicaSet", {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y", "z": "1"}))
    assert all(re.fullmatch(f"web-{SAFE}{{5}}", name) for name in names(found))
    assert len(set(names(found))) == 3
    (group,) = found.updated
    assert group["metadata"]["name"] == "podgroup-uid-1"
    assert group["metadata"]["annotations"] == {"volcano.sh/x": "y"}
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["requests.cpu"] == "2"
    assert group["spec"]["minResources"]["volcano.sh/vgpu-number"] == "2"
    for pod in found.created:
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "podgroup-uid-1"
        assert pod["metadata"]["labels"] == {"app": "web"}
        assert owner(pod)["kind"] == "ReplicaSet"


def test_the_queue_of_the_pods_is_that_of_their_pod_group():
    queued = template()
    queued["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "research"}
    (group,) = made(app("ReplicaSet", template=queued)).updated
    assert (group["spec"]["queue"], group["spec"]["minMember"]) == ("research", 1)


def test_pods_of_other_schedulers_and_in_a_group_of_their_own_get_no_pod_group():
    grouped = template()
    grouped["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "mine"}
    assert made(app("ReplicaSet", template=grouped)).updated == []
    assert made(app("ReplicaSet", template=template("default-scheduler"))).updated == []
    assert made(app("ReplicaSet", replicas=0)) == Desired([], [], frozenset())


def test_a_failed_pod_of_a_replica_set_is_replaced_and_stays():
    first, second, third = names(made(app("ReplicaSet")))
    found = made(app("ReplicaSet"), {first: RUNNING, second: FAILED, third: PENDING})
    assert {first, third} < set(names(found))
    assert second not in names(found)
    assert len(names(found)) == 3
    assert {key.name for key in found.kept} == {second}


def test_of_the_ended_pods_of_a_replica_set_the_newest_100_stay():
    """A pod that fails by its stage is replaced at once, without end."""
    states = {f"web-{number}": PodState("Failed", "", f"2026-02-03T08:{number:03}") for number in range(250)}
    found = made(app("ReplicaSet"), dict(reversed(states.items())))
    assert {key.name for key in found.kept} == {f"web-{number}" for number in range(150, 250)}
    assert len(names(found)) == 3


def test_of_fewer_replicas_those_that_run_stay():
    first, second, third = names(made(app("ReplicaSet")))
    states = {first: PENDING, second: RUNNING, third: PENDING}
    assert names(made(app("ReplicaSet", replicas=1), states)) == [second]
    assert names(made(app("ReplicaSet", replicas=1), states | {"web-other": RUNNING})) == [second]


def test_a_stateful_set_starts_one_pod_after_the_other():
    assert names(made(app("StatefulSet"))) == ["web-0"]
    assert names(made(app("StatefulSet"), {"web-0": PENDING})) == ["web-0"]
    assert names(made(app("StatefulSet"), {"web-0": RUNNING})) == ["web-0", "web-1"]
    both = {"web-0": RUNNING, "web-1": RUNNING}
    assert names(made(app("StatefulSet"), both)) == ["web-0", "web-1", "web-2"]
    assert names(made(app("StatefulSet", podManagementPolicy="Parallel"))) == ["web-0", "web-1", "web-2"]
    assert names(made(app("StatefulSet", replicas=1, ordinals={"start": 5}))) == ["web-5"]


def test_pods_of_a_stateful_set_have_its_labels_and_host_names():
    (pod,) = made(app("StatefulSet", replicas=1, serviceName="peers")).created
    revision = pod["metadata"]["labels"].pop("controller-revision-hash")
    assert re.fullmatch(f"web-{SAFE}+", revision)
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "peers")


def test_a_pod_of_a_stateful_set_that_has_ended_is_deleted_and_made_again():
    states = {"web-0": RUNNING, "web-1": FAILED, "web-2": RUNNING}
    assert names(made(app("StatefulSet"), states)) == ["web-0", "web-2"]
    assert names(made(app("StatefulSet"), {"web-0": RUNNING, "web-2": RUNNING})) == ["web-0", "web-1", "web-2"]


def test_a_new_template_of_a_stateful_set_replaces_the_last_pod_first():
    stale = {f"web-{number}": PodState("Running", "web-old") for number in range(3)}
    assert names(made(app("StatefulSet"), stale)) == ["web-0", "web-1"]
    assert names(made(app("StatefulSet", updateStrategy={"type": "OnDelete"}), stale)) == ["web-0", "web-1", "web-2"]


def test_claims_of_a_stateful_set_are_mounted():
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    found = made(app("StatefulSet", replicas=1, volumeClaimTemplates=[claim]))
    (pod,) = (each for each in found.created if each["kind"] == "Pod")
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]


def test_a_job_makes_as_many_pods_as_may_run_at_once():
    found = made(job(parallelism=2, completions=3))
    assert all(re.fullmatch(f"train-{SAFE}{{5}}", name) for name in names(found))
    assert len(names(found)) == 2
    assert found.created[0]["metadata"]["labels"] == {
        "app": "web",
        "batch.kubernetes.io/controller-uid": "uid-1",
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": "uid-1",
        "job-name": "train",
    }
    assert found.status == {"active": 2, "succeeded": 0, "failed": 0, "conditions": []}
    first, second = names(found)
    later = made(job(parallelism=2, completions=3), {first: SUCCEEDED, second: SUCCEEDED})
    assert len(names(later)) == 1
    assert {key.name for key in later.kept} == {first, second}
    done = made(job(parallelism=2, completions=3), {first: SUCCEEDED, second: SUCCEEDED, names(later)[0]: SUCCEEDED})
    assert names(done) == []
    assert done.status["conditions"][0]["type"] == "Complete"


def test_a_job_without_numbers_has_one_pod():
    assert len(names(made(job()))) == 1


def test_a_finished_job_makes_no_pods_even_if_they_are_deleted():
    obj = admitted(job())
    obj["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert desired(obj, Owned()).created == []


def test_a_work_queue_is_complete_when_one_pod_has_succeeded_and_all_have_ended():
    first, second = names(made(job(parallelism=2)))
    running = made(job(parallelism=2), {first: SUCCEEDED, second: RUNNING})
    assert (names(running), running.status["conditions"]) == ([second], [])
    ended = made(job(parallelism=2), {first: SUCCEEDED, second: FAILED})
    assert (names(ended), ended.status["conditions"][0]["type"]) == ([], "Complete")


def test_an_indexed_job_has_a_pod_for_each_index():
    found = made(job(parallelism=2, completions=4, completionMode="Indexed"))
    assert [re.sub(f"{SAFE}{{5}}$", "", name) for name in names(found)] == ["train-0-", "train-1-"]
    pod = found.created[1]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert pod["spec"]["hostname"] == "train-1"
    assert pod["spec"]["containers"][0]["env"][-1]["name"] == "JOB_COMPLETION_INDEX"
    first, second = names(found)
    later = made(job(parallelism=2, completions=4, completionMode="Indexed"), {first: SUCCEEDED, second: FAILED})
    assert [name.rsplit("-", 1)[0] for name in names(later)] == ["train-1", "train-2"]
    assert second not in names(later)


def test_the_pods_of_an_indexed_job_are_read_once_for_all_indexes():
    reads = []

    class Pods(dict[str, PodState]):
        def items(self):
            reads.append(1)
            return super().items()

    indexed = job(completionMode="Indexed", completions=50, parallelism=50)
    states = dict.fromkeys(names(made(indexed)), RUNNING)
    assert names(made(indexed, Pods(states))) == list(states)
    assert len(reads) <= 3


def test_a_job_fails_after_more_failures_than_its_limit():
    (first,) = names(made(job(backoffLimit=1)))
    (second,) = names(made(job(backoffLimit=1), {first: FAILED}))
    found = made(job(backoffLimit=1), {first: FAILED, second: FAILED})
    assert names(found) == []
    assert found.status["conditions"][0]["reason"] == "BackoffLimitExceeded"


def test_a_suspended_job_has_no_active_pods():
    found = made(job(suspend=True), {"train-x": RUNNING})
    assert (names(found), found.updated, found.kept) == ([], [], frozenset())
    assert found.status["conditions"][0]["type"] == "Suspended"


def cron() -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "ai"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": job()["spec"]}},
    }


def test_a_job_is_made_from_a_cron_job_by_command_only():
    stored = admit(cron(), uid="uid-1", now="now", priorities=Priorities())
    assert [each.text for each in stored.warnings] == [
        "CronJob ai/nightly: spec.schedule is not played by the local cluster: make Jobs with "
        '"deviceshare create job NAME --from=cronjob/nightly"'
    ]
    by_hand = admitted(job_from(stored.object, "now"))
    assert by_hand["metadata"]["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert by_hand["metadata"]["labels"] == {"a": "b"}
    assert (owner(by_hand)["kind"], owner(by_hand)["name"]) == ("CronJob", "nightly")
    found = desired(stored.object, Owned({}, [by_hand]))
    assert (found.created, found.updated, {key.name for key in found.kept}) == ((), (), {"now"})


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (app("Deployment", replicas=-1), "spec.replicas"),
        (app("Deployment", replicas=10**9), "spec.replicas"),
        (app("Deployment", selector={"matchLabels": {"app": "x"}}), "spec.selector.matchLabels.app"),
        (app("Deployment", selector={}), "spec.selector"),
        (app("Deployment", template=template(restartPolicy="Never")), "spec.template.spec.restartPolicy"),
        (app("Deployment", template={"spec": {}}), "spec.template.spec"),
        (app("ReplicaSet", template=None), "spec.template"),
        (app("StatefulSet", volumeClaimTemplates=[{"metadata": {}}]), "spec.volumeClaimTemplates[0].metadata.name"),
        (job(template=template()), "spec.template.spec.restartPolicy"),
        (job(completionMode="Indexed"), "spec.completions"),
        (job(completionMode="Sorted"), "spec.completionMode"),
        (job(parallelism="2"), "spec.parallelism"),
        (cron() | {"spec": {"schedule": "daily", "jobTemplate": {"spec": {}}}}, "spec.schedule"),
        (cron() | {"spec": {"schedule": "0 3 * * *"}}, "spec.jobTemplate"),
    ],
)
def test_invalid_workloads_are_refused_by_field(obj: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        admitted(obj)
    assert caught.value.problem.field == field


def test_parts_of_jobs_that_are_not_played_are_named():
    found = admit(job(activeDeadlineSeconds=5), uid="u", now="now", priorities=Priorities())
    assert [each.field for each in found.warnings] == ["spec.activeDeadlineSeconds"]


def test_all_objects_of_a_deployment_are_the_pods_of_its_replica_set():
    found = list(all_objects(admitted(app("Deployment")), {}, admitted))
    assert [kind_of(each) for each in found] == ["PodGroup", "Pod", "Pod", "Pod"]
    assert len({each["metadata"]["name"] for each in found}) == 4
    found = list(all_objects(admitted(app("StatefulSet")), {}, admitted))
    assert [each["metadata"]["name"] for each in found][1:] == ["web-0", "web-1", "web-2"]


def test_a_generated_name_is_the_same_for_equal_manifests():
    nameless = job() | {"metadata": {"generateName": "train-"}}
    first, again = admitted(nameless)["metadata"]["name"], admitted(nameless)["metadata"]["name"]
    assert re.fullmatch(f"train-{SAFE}{{5}}", first)
    assert first == again
    assert admitted(nameless | {"spec": job(parallelism=2)["spec"]})["metadata"]["name"] != first


def test_a_kind_without_a_controller_is_named_with_its_pod_templates():
    unknown = {
        "apiVersion": "sparkoperator.k8s.io/v1",
        "kind": "SparkConnect",
        "metadata": {"name": "s"},
        "spec": {"server": {"template": template()}, "executors": [{"template": template()}]},
    }
    with pytest.raises(RequestError) as caught:
        admitted(unknown)
    assert caught.value.problem.field == "kind"
    assert caught.value.problem.expected.endswith(
        "nothing here makes pods of a SparkConnect from its pod templates (spec.server.template, "
        "spec.executors.0.template)"
    )
