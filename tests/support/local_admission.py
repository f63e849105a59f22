"""What the local cluster makes of an object that is created."""

from typing import Any

import pytest
from deviceshare.model import RequestError
from deviceshare_localcluster.admission import Admitted, Priorities, admit

NOW = "2026-11-21T12:00:00Z"
CARDS = "volcano.sh/vgpu-number"


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}


def admitted(obj: dict[str, Any], priorities: Priorities | None = None) -> Admitted:
    return admit(obj, uid="uid-1", now=NOW, priorities=priorities or Priorities())


def pod(limits: Any = None, requests: Any = None, **spec: Any) -> dict[str, Any]:
    resources = {name: value for name, value in (("limits", limits), ("requests", requests)) if value is not None}
    container = {"name": "c", "image": "busybox", "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]} | spec}


def job(**spec: Any) -> dict[str, Any]:
    task = {"replicas": 2, "name": "worker", "template": {"spec": pod({CARDS: 1})["spec"]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [task]} | spec,
    }


def refusal(obj: dict[str, Any]) -> tuple[str, str, str, str]:
    with pytest.raises(RequestError) as caught:
        admitted(obj)
    problem = caught.value.problem
    assert "\n" not in str(problem)
    return problem.subject, problem.field, problem.value, problem.expected
