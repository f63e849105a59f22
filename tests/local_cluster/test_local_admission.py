"""The errors of the local API server, and its defaults."""

import json
from typing import Any

import pytest
import yaml
from deviceshare.model import RequestError
from deviceshare_localcluster.admission import Priorities, admit, priorities_of
from hypothesis import given
from hypothesis import strategies as st
from support.local_admission import CARDS, NOW, OWNER, admitted, job, pod, refusal


@pytest.mark.parametrize(("given", "other"), [("limits", "requests"), ("requests", "limits")])
def test_one_side_of_the_amounts_may_be_null(given: str, other: str) -> None:
    obj = pod()
    obj["spec"]["containers"][0]["resources"] = {given: {CARDS: 2}, other: None}
    assert admitted(obj).object["spec"]["containers"][0]["resources"] == {given: {CARDS: "2"}, other: {CARDS: "2"}}


@pytest.mark.parametrize(("key", "shown"), [("no", "false"), ("on", "true"), ("~", "null")])
def test_a_key_of_a_manifest_that_is_no_string(key: str, shown: str) -> None:
    text = json.dumps(pod(nodeSelector={"such": "a"})).replace('"such"', key)
    problem = refusal(yaml.safe_load(text))
    assert problem[:3] == ("Pod default/a", "spec.nodeSelector", shown)
    assert "a string as the key: write it in quotes" in problem[3]


def test_a_number_as_a_key_is_its_text() -> None:
    assert admitted(pod(nodeSelector={1: "a"})).object["spec"]["nodeSelector"] == {"1": "a"}


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan"])
def test_a_number_that_json_does_not_have(value: str) -> None:
    field = f"spec.containers[0].resources.limits[{CARDS}]"
    obj = pod({CARDS: yaml.safe_load(value)})
    obj["metadata"]["creationTimestamp"] = None
    assert refusal(obj) == ("Pod default/a", field, value, "a finite number")


@pytest.mark.parametrize(
    ("volume", "field"),
    [
        ({"name": "a", "ephemeral": {}}, "ephemeral.volumeClaimTemplate"),
        ({"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}, "ephemeral.volumeClaimTemplate.spec"),
        ({"name": "A", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, "name"),
        (
            {"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}, "metadata": {"labels": {"a": 1}}}}},
            "ephemeral.volumeClaimTemplate.metadata.labels.a",
        ),
    ],
)
def test_ephemeral_volumes_of_which_no_claim_can_be_made(volume: dict[str, Any], field: str) -> None:
    assert refusal(pod(volumes=[volume]))[1] == f"spec.volumes[0].{field}"


@pytest.mark.parametrize("uid", ["a b", "a.*", ">", "a\n", 5])
def test_a_uid_that_could_not_stand_in_a_subject(uid: Any) -> None:
    given = pod()
    given["metadata"]["uid"] = uid
    assert refusal(given)[1:3] == ("metadata.uid", str(uid))


@pytest.mark.parametrize("uid", ["", None])
def test_no_uid_is_a_new_one(uid: Any) -> None:
    given = pod()
    given["metadata"]["uid"] = uid
    assert admitted(given).object["metadata"]["uid"] == "uid-1"


@pytest.mark.parametrize("value", [-1, "-1", 2.5, "2.5", "2500m", "many", True, None, [1]])
def test_cards_are_whole_numbers(value: Any) -> None:
    subject, field, shown, expected = refusal(pod({CARDS: value}))
    assert subject == "Pod default/a"
    assert field == "spec.containers[0].resources.limits[volcano.sh/vgpu-number]"
    assert shown == str(value)
    assert expected.startswith("a whole number")


@pytest.mark.parametrize("value", [0, 1, "1", "2k", 3.0])
def test_whole_amounts_of_cards_are_accepted_and_written_as_strings(value: Any) -> None:
    resources = admitted(pod({CARDS: value})).object["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {CARDS: str(value)}, "requests": {CARDS: str(value)}}


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_cpu_and_memory_are_not_negative(name: str) -> None:
    assert refusal(pod({name: "-1"}))[1:3] == (f"spec.containers[0].resources.limits.{name}", "-1")
    assert admitted(pod({name: "0.5"})).warnings == []


def test_requests_are_filled_in_from_limits() -> None:
    resources = admitted(pod({"cpu": "2", CARDS: "1"}, {"cpu": "1"})).object["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1", CARDS: "1"}


def test_requests_above_limits_are_refused() -> None:
    _, field, value, expected = refusal(pod({"memory": "1Gi"}, {"memory": "1025Mi"}))
    assert (field, value) == ("spec.containers[0].resources.requests.memory", "1025Mi")
    assert "1Gi" in expected
    assert admitted(pod({"memory": "1Gi"}, {"memory": "1024Mi"})).warnings == []


def test_requests_of_devices_equal_their_limits() -> None:
    _, field, value, expected = refusal(pod({CARDS: "2"}, {CARDS: "1"}))
    assert (field, value) == (f"spec.containers[0].resources.requests[{CARDS}]", "1")
    assert "2" in expected


def test_device_memory_in_bytes_is_a_warning_with_the_number_of_mebibytes() -> None:
    (warning,) = admitted(pod({"volcano.sh/vgpu-memory": "2Gi"})).warnings
    assert warning.field == "spec.containers[0].resources.limits[volcano.sh/vgpu-memory]"
    assert warning.text.endswith("(did you mean '2048'?)")


def test_a_request_of_devices_without_a_limit_is_taken_for_it_with_a_warning() -> None:
    result = admitted(pod(None, {"nvidia.com/gpu": "1", "cpu": "2"}))
    resources = result.object["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "1"}
    (warning,) = result.warnings
    assert warning.field == "spec.containers[0].resources.requests[nvidia.com/gpu]"
    assert warning.text.startswith("Pod default/a: spec.containers[0].resources.limits has no nvidia.com/gpu")


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (pod(containers=[]), "spec.containers"),
        (pod(containers=None), "spec.containers"),
        (pod(containers={"name": "c"}), "spec.containers"),
        (pod(containers=["c"]), "spec.containers[0]"),
        (pod(containers=[{"name": "c"}]), "spec.containers[0].image"),
        (pod(containers=[{"image": "i"}]), "spec.containers[0].name"),
        (pod(containers=[{"name": "C_", "image": "i"}]), "spec.containers[0].name"),
        (pod(containers=[{"name": "c", "image": "i"}] * 2), "spec.containers[1].name"),
        (pod(initContainers=[{"name": "c", "image": "i"}]), "spec.initContainers[0].name"),
        (pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
        (pod({"gpu": 1}), "spec.containers[0].resources.limits"),
        (pod([1]), "spec.containers[0].resources.limits"),
        (pod(nodeSelector={"gpu": True}), "spec.nodeSelector.gpu"),
        (pod(priorityClassName="high"), "spec.priorityClassName"),
        (pod(priority=7), "spec.priority"),
        (pod() | {"spec": None}, "spec"),
        (pod() | {"spec": "x"}, "spec"),
        (pod() | {"metadata": {"name": "A"}}, "metadata.name"),
        (pod() | {"metadata": {"name": "a" * 254}}, "metadata.name"),
        (pod() | {"metadata": {}}, "metadata.name"),
        (pod() | {"metadata": None}, "metadata"),
        (pod() | {"metadata": {"name": "a", "namespace": "x.y"}}, "metadata.namespace"),
        (pod() | {"metadata": {"name": "a", "labels": {"app": 1}}}, "metadata.labels.app"),
        (pod() | {"metadata": {"name": "a", "labels": {"app": "a b"}}}, "metadata.labels.app"),
        (pod() | {"metadata": {"name": "a", "annotations": {"x/y": True}}}, "metadata.annotations[x/y]"),
        (pod() | {"kind": "DaemonSet"}, "kind"),
        (pod() | {"kind": "Deployment"}, "apiVersion"),
        (pod() | {"apiVersion": "v2"}, "apiVersion"),
        (job() | {"apiVersion": "batch/v2"}, "apiVersion"),
    ],
)
def test_objects_that_the_api_server_refuses(obj: dict[str, Any], field: str) -> None:
    assert refusal(obj)[1] == field


@pytest.mark.parametrize("kind", ["Service", "Pod", "PyTorchJob", "Job"])
@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"status": "x"}, "status"),
        ({"status": {"phase": 5}}, "status.phase"),
        ({"status": {"conditions": [5]}}, "status.conditions[0]"),
        ({"metadata": {"name": "a", "ownerReferences": [5]}}, "metadata.ownerReferences[0]"),
        (
            {"metadata": {"name": "a", "ownerReferences": [OWNER | {"controller": "yes"}]}},
            "metadata.ownerReferences[0].controller",
        ),
        ({"metadata": {"name": "a", "ownerReferences": [OWNER | {"uid": 1}]}}, "metadata.ownerReferences[0].uid"),
    ],
)
def test_a_status_and_owners_that_controllers_cannot_read(kind: str, fields: dict[str, Any], refused: str) -> None:
    version = {"PyTorchJob": "kubeflow.org/v1", "Job": "batch/v1"}.get(kind, "v1")
    assert refusal({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}} | fields)[1] == refused


def test_no_owners_and_no_controller_may_be_null() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "ownerReferences": None}}
    assert "ownerReferences" not in admitted(service).object["metadata"]
    service["metadata"] = {"name": "a", "ownerReferences": [OWNER | {"controller": None}]}
    assert admitted(service | {"status": {"phase": None}}).object["metadata"]["ownerReferences"] == [OWNER]


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    subject, _, value, expected = refusal(pod() | {"kind": "DaemonSet"})
    assert (subject, value) == ("DaemonSet a", "DaemonSet")
    assert all(kind in expected for kind in ("Node", "Pod", "ConfigMap", "Job", "PodGroup", "Queue", "PriorityClass"))


def test_defaults_of_a_pod() -> None:
    given_pod = pod(tolerations=[{"operator": "Exists"}])
    result = admitted(given_pod).object
    assert result["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-1", "creationTimestamp": NOW}
    assert result["spec"]["schedulerName"] == "default-scheduler"
    assert result["spec"]["restartPolicy"] == "Always"
    assert result["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert result["spec"]["priority"] == 0
    assert result["status"] == {"phase": "Pending"}
    assert "schedulerName" not in given_pod["spec"], "what was given stays as it is"


def test_priority_comes_from_the_class() -> None:
    priorities = Priorities({"high": 1000, "low": -5}, otherwise=3)
    assert admitted(pod(priorityClassName="high"), priorities).object["spec"]["priority"] == 1000
    assert admitted(pod(), priorities).object["spec"]["priority"] == 3
    assert admitted(pod(priorityClassName="low", priority=-5), priorities).object["spec"]["priority"] == -5


def test_a_pod_that_is_bound_already_keeps_everything() -> None:
    existing = pod({CARDS: 1}, nodeName="gpu-1")
    existing["metadata"] |= {"uid": "its-own", "annotations": {"volcano.sh/vgpu-node": "gpu-1"}}
    result = admitted(existing).object
    assert result["metadata"]["uid"] == "its-own"
    assert result["spec"]["nodeName"] == "gpu-1"
    assert result["status"]["phase"] == "Running"


def test_a_node_without_conditions_is_ready_and_all_its_capacity_can_be_allocated() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"capacity": {"cpu": 8, "pods": 110, "volcano.sh/gpu-memory": "11178"}}
    status = admitted(node).object["status"]
    assert status["allocatable"] == {"cpu": "8", "pods": "110", "volcano.sh/gpu-memory": "11178"}
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Ready", "True")]
    node["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    assert admitted(node).object["status"]["conditions"] == [{"type": "Ready", "status": "False"}]
    node["status"] = {"capacity": {"volcano.sh/gpu-number": "-2"}}
    assert refusal(node)[:3] == ("Node n", "status.capacity[volcano.sh/gpu-number]", "-2")


def test_defaults_of_a_job() -> None:
    result = admitted(job(tasks=[{"replicas": 3, "template": {"spec": pod()["spec"]}}, *job()["spec"]["tasks"]]))
    spec = result.object["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        5,
    )
    assert [(task["name"], task["minAvailable"]) for task in spec["tasks"]] == [("default0", 3), ("worker", 2)]
    assert "restartPolicy" not in spec["tasks"][0]["template"]["spec"], "a template's defaults are its pods'"


def _task(**changes: Any) -> dict[str, Any]:
    return {"replicas": 2, "name": "worker", "template": {"spec": pod()["spec"]}} | changes


@pytest.mark.parametrize(
    ("obj", "field", "value"),
    [
        (job(tasks=[]), "spec.tasks", "[]"),
        (job(tasks=None), "spec.tasks", "nothing"),
        (job() | {"spec": None}, "spec.tasks", "nothing"),
        (job(tasks=[_task(), _task()]), "spec.tasks[1].name", "worker"),
        (job(tasks=[_task(name="Worker")]), "spec.tasks[0].name", "Worker"),
        (job(tasks=[_task(name="w" * 60)]), "spec.tasks[0].name", "w" * 60),
        (job(tasks=[_task(replicas=-1)]), "spec.tasks[0].replicas", "-1"),
        (job(tasks=[_task(replicas="2")]), "spec.tasks[0].replicas", "2"),
        (job(tasks=[_task(minAvailable=3)]), "spec.tasks[0].minAvailable", "3"),
        (job(tasks=[_task(minAvailable=-1)]), "spec.tasks[0].minAvailable", "-1"),
        (job(tasks=[_task(template={})]), "spec.tasks[0].template.spec", "nothing"),
        (job(minAvailable=-1), "spec.minAvailable", "-1"),
        (job(minAvailable=3), "spec.minAvailable", "3"),
        (job(queue=7), "spec.queue", "7"),
        (job(plugins={"gpu": []}), "spec.plugins", "gpu"),
        (job(plugins={"svc": "yes"}), "spec.plugins.svc", "yes"),
        (job(policies=[{"event": "PodEvicted", "action": "Restart"}]), "spec.policies[0].action", "Restart"),
        (job(policies=[{"event": "Evicted", "action": "RestartJob"}]), "spec.policies[0].event", "Evicted"),
        (job(tasks=[_task(dependsOn={"name": ["ps"]})]), "spec.tasks[0].dependsOn.name", "ps"),
        (job(volumes=[{"mountPath": "/data"}]), "spec.volumes[0]", '{"mountPath":"/data"}'),
        (
            job(tasks=[_task(template={"spec": pod({CARDS: 2.5})["spec"]})]),
            f"spec.tasks[0].template.spec.containers[0].resources.limits[{CARDS}]",
            "2.5",
        ),
    ],
)
def test_objects_that_the_webhook_of_volcano_refuses(obj: dict[str, Any], field: str, value: str) -> None:
    subject, refused, shown, _ = refusal(obj)
    assert (subject, refused, shown) == ("Job default/train", field, value)


def test_a_framework_plugin_brings_the_plugins_it_needs_and_a_warning() -> None:
    result = admitted(job(plugins={"mpi": []}))
    assert set(result.object["spec"]["plugins"]) == {"mpi", "svc", "ssh"}
    assert any("mpi" in warning.text for warning in result.warnings)


def test_queues_groups_and_classes() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    assert admitted(queue).object["spec"] == {"weight": 1, "reclaimable": True}
    assert refusal(queue | {"spec": {"weight": -1}})[:3] == ("Queue q", "spec.weight", "-1")
    group = queue | {"kind": "PodGroup", "spec": {"minMember": 4}}
    assert admitted(group).object["spec"] == {"minMember": 4, "queue": "default"}
    assert refusal(group | {"spec": {"minMember": "4"}})[:2] == ("PodGroup default/q", "spec.minMember")
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    assert admitted(priority | {"value": 9}).object["value"] == 9
    assert refusal(priority)[1] == "value"


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [
        ("never", None, "Never"),
        ("high", None, None),
        ("never", "PreemptLowerPriority", "PreemptLowerPriority"),
        (None, None, "Never"),
    ],
)
def test_a_pod_has_the_preemption_policy_of_its_class(name: str | None, own: str | None, expected: str | None) -> None:
    def of(name: str, value: int, **fields: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "value": value, **fields}

    never = {"preemptionPolicy": "Never"}
    priorities = priorities_of([of("high", 9), of("never", 7, **never), of("usual", 1, **never, globalDefault=True)])
    fields = {"priorityClassName": name, "preemptionPolicy": own}
    spec = {"containers": [{"name": "c", "image": "i"}]} | {key: value for key, value in fields.items() if value}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    found = admit(manifest, uid="u", now="2026-01-01T00:00:00Z", priorities=priorities).object["spec"]
    assert found.get("preemptionPolicy") == expected
    assert found["priority"] == {"never": 7, "high": 9, None: 1}[name]


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_places = st.sampled_from(
    [
        ("metadata",),
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("spec",),
        ("status",),
        ("spec", "containers"),
        ("spec", "tasks"),
        ("spec", "tasks", 0),
        ("spec", "tasks", 0, "template"),
        ("spec", "tasks", 0, "dependsOn"),
        ("spec", "plugins"),
        ("spec", "volumes"),
        ("spec", "policies"),
        ("spec", "containers", 0),
        ("spec", "containers", 0, "resources"),
        ("spec", "containers", 0, "resources", "limits"),
        ("status", "conditions"),
        ("status", "capacity"),
        ("data",),
    ]
)


@given(_places, _json, st.sampled_from(["Pod", "Job", "Node", "PodGroup", "Queue", "ConfigMap", "PriorityClass"]))
def test_any_value_is_accepted_or_refused_with_its_name(place: tuple[Any, ...], value: Any, kind: str) -> None:
    obj = job() if kind == "Job" else pod({CARDS: 1})
    versions = {"Job": "batch.volcano.sh/v1alpha1", "PriorityClass": "scheduling.k8s.io/v1"}
    versions |= dict.fromkeys(("PodGroup", "Queue"), "scheduling.volcano.sh/v1beta1")
    obj |= {"kind": kind, "apiVersion": versions.get(kind, "v1")}
    at: Any = obj
    for step in place[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
        if not isinstance(at, dict | list):
            return
    if isinstance(at, dict) or (at and isinstance(place[-1], int)):
        at[place[-1]] = value
    try:
        once = admitted(obj).object
    except RequestError:
        return
    assert admitted(once).object == once, "admitting what was admitted changes nothing"
