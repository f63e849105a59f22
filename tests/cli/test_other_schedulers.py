"""Warnings about manifests whose pods belong to another scheduler."""

from typing import Any

import pytest
from deviceshare_cli.pods import other_schedulers

SERVED = ("deviceshare", "volcano")


def workload(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


JOB = {"template": template()}


@pytest.mark.parametrize(
    ("manifest", "fields"),
    [
        (workload("v1", "Pod"), ["spec.schedulerName"]),
        (workload("v1", "Pod", schedulerName="volcano"), []),
        (workload("batch.volcano.sh/v1alpha1", "Job"), []),
        (workload("batch.volcano.sh/v1alpha1", "Job", schedulerName="x"), ["spec.schedulerName"]),
        (workload("batch/v1", "Job", template=template()), ["spec.template.spec.schedulerName"]),
        (workload("apps/v1", "Deployment", template=template(schedulerName="deviceshare")), []),
        (
            workload("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"template": {"spec": JOB}}]),
            ["spec.replicatedJobs[0].template.spec.template.spec.schedulerName"],
        ),
        (workload("ray.io/v1", "RayCluster", headGroupSpec={"template": template()}), []),
        (workload("v1", "Queue"), []),
        (workload("apps/v1", "Deployment", template=3), []),
    ],
)
def test_the_field_that_names_another_scheduler(manifest: dict[str, Any], fields: list[str]) -> None:
    assert [field for field, _ in other_schedulers(manifest, SERVED)] == fields


def test_without_served_schedulers_nothing_is_said() -> None:
    assert other_schedulers(workload("v1", "Pod"), ()) == []
