"""Unknown and unevaluated fields of manifests: warnings like those of kubectl's strict validation."""

import json
import re
from pathlib import Path

import pytest
from deviceshare_localcluster import known_fields
from deviceshare_localcluster.admission import Priorities, admit
from kubernetes.client import models

CORE = (
    "Pod",
    "Node",
    "ConfigMap",
    "Secret",
    "Service",
    "PriorityClass",
    "PodDisruptionBudget",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "Job",
    "CronJob",
    "PodTemplateSpec",
    "PersistentVolumeClaimSpec",
)
FILE = Path(known_fields.__file__).with_suffix(".json")


def client_types() -> dict[str, dict[str, str]]:
    """Return the fields of the types of the official client, with the type of each that is a structure."""
    found: dict[str, dict[str, str]] = {}
    todo = [f"V1{name}" for name in (*CORE, "LabelSelector")]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        model, fields = getattr(models, name), {}
        for attribute, of_type in model.openapi_types.items():
            inner = re.sub(r"List\[(.*)\]", r"\1", of_type)
            of_model = hasattr(getattr(models, inner, None), "openapi_types")
            fields[model.attribute_map[attribute]] = inner if of_model else ""
            if of_model:
                todo.append(inner)
        found[name] = dict(sorted(fields.items()))
    return dict(sorted(found.items()))


def test_the_file_has_the_types_of_the_official_client() -> None:
    """To write it again: ``python tests/local_cluster/test_known_fields.py``."""
    assert json.loads(FILE.read_text()) == client_types()


def warnings(**manifest: object) -> list[str]:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **manifest}
    return [
        each.text for each in admit(manifest, uid="u", now="2026-01-01T00:00:00Z", priorities=Priorities()).warnings
    ]


def pod_spec(**more: object) -> dict[str, object]:
    return {"containers": [{"name": "c", "image": "i", **more}]}


def queue(**spec: object) -> list[str]:
    return warnings(apiVersion="scheduling.volcano.sh/v1beta1", kind="Queue", spec=spec)


def group(**spec: object) -> list[str]:
    return warnings(apiVersion="scheduling.volcano.sh/v1beta1", kind="PodGroup", spec=spec)


def job(task: dict[str, object], **spec: object) -> list[str]:
    tasks = [{"replicas": 1, "template": {"spec": pod_spec()}, **task}]
    return warnings(apiVersion="batch.volcano.sh/v1alpha1", kind="Job", spec={"tasks": tasks, **spec})


def test_unknown_fields_are_named_with_the_nearest_known_one() -> None:
    assert warnings(spec={**pod_spec(), "schedulerNme": "volcano"}) == [
        "Pod default/a: unknown field \"spec.schedulerNme\" (did you mean 'schedulerName'?)"
    ]
    assert warnings(spec=pod_spec(resources={"limit": {"volcano.sh/vgpu-number": 1}})) == [
        "Pod default/a: unknown field \"spec.containers[0].resources.limit\" (did you mean 'limits'?)"
    ]
    assert queue(capabilty={"cpu": 1}) == ["Queue a: unknown field \"spec.capabilty\" (did you mean 'capability'?)"]
    assert job({"replica": 2}) == ["Job default/a: unknown field \"spec.tasks[0].replica\" (did you mean 'replicas'?)"]
    assert job({"template": {"spec": {**pod_spec(), "nodeSelecter": {}}}}) == [
        "Job default/a: unknown field \"spec.tasks[0].template.spec.nodeSelecter\" (did you mean 'nodeSelector'?)"
    ]


def test_free_keys_and_all_known_fields_are_no_warnings() -> None:
    free = {"metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"x": "y"}}}
    assert warnings(**free, spec={**pod_spec(), "nodeSelector": {"a": "b"}, "overhead": {"cpu": "1"}}) == []
    assert queue(capability={"x.io/y": 1}, guarantee={"resource": {"cpu": 1}}, deserved={"x.io/z": 1}) == []
    assert job({"name": "t", "minAvailable": 1, "dependsOn": {"name": []}}, plugins={"svc": []}) == []


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (lambda: job({}, networkTopology={"mode": "soft"}), "spec.networkTopology"),
        (lambda: job({"topologyPolicy": "none"}), "spec.tasks[0].topologyPolicy"),
        (lambda: group(networkTopology={"mode": "soft", "highestTierAllowed": 1}), "spec.networkTopology"),
        (lambda: group(subGroupPolicy=[{"name": "x"}]), "spec.subGroupPolicy"),
        (lambda: queue(affinity={}), "spec.affinity"),
        (lambda: queue(dequeueStrategy="fifo"), "spec.dequeueStrategy"),
    ],
)
def test_features_of_volcano_that_are_not_evaluated_are_named(found, field: str) -> None:
    (text,) = found()
    assert text.endswith(f': field "{field}" of Volcano is not evaluated and has no effect')


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (lambda: job({}, networkTopology={"mode": "hard"}), "spec.networkTopology"),
        (lambda: job({}, networkTopology={"highestTierAllowed": 1}), "spec.networkTopology"),
        (lambda: job({"topologyPolicy": "best-effort"}), "spec.tasks[0].topologyPolicy"),
        (
            lambda: job({"partitionPolicy": {"networkTopology": {"mode": "hard"}}}),
            "spec.tasks[0].partitionPolicy.networkTopology",
        ),
        (lambda: group(networkTopology={"mode": "hard"}), "spec.networkTopology"),
        (
            lambda: group(subGroupPolicy=[{"name": "x", "networkTopology": {"mode": "hard"}}]),
            "spec.subGroupPolicy[0].networkTopology",
        ),
    ],
)
def test_constraints_that_are_not_evaluated_make_pods_wait(found, field: str) -> None:
    assert found()[-1].endswith(f': field "{field}" of Volcano is not evaluated: its pods are not placed')


if __name__ == "__main__":
    lines = (f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in client_types().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
