"""In-place resize: a pod on a node counts the largest of its spec, what is allocated, and what is in effect."""

from typing import Any

import pytest
from deviceshare.model import PodFact
from deviceshare.objects import decode_pod, resizing
from support.pod_objects import container, pod

GI = 2**30
DEVICES = {"volcano.sh/vgpu-number": "1"}


def resized(
    spec: dict[str, str], *, status: dict[str, Any] | None = None, condition: str = "", **more: Any
) -> dict[str, int]:
    """Return what the container of a bound pod counts, with a container status and the reason of PodResizePending."""
    statuses = [] if status is None else [{"name": "c", **status}]
    conditions = [{"type": "PodResizePending", "status": "True", "reason": condition}] if condition else []
    given = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions, **more}
    fact = pod({"nodeName": "n1", "containers": [container("c", resources={"requests": spec})]}, given)
    assert fact.problems == ()
    return dict(fact.ask.containers[0].resources)


@pytest.mark.parametrize(
    ("status", "condition", "expected"),
    [
        (None, "", {"cpu": 1000, "memory": GI}),
        ({}, "", {"cpu": 1000, "memory": GI}),
        ({"allocatedResources": {"cpu": "2", "memory": "1Gi"}}, "", {"cpu": 2000, "memory": GI}),
        ({"resources": {"requests": {"memory": "3Gi"}}}, "", {"cpu": 1000, "memory": 3 * GI}),
        ({"allocatedResources": {"cpu": "500m"}, "resources": {"requests": {"cpu": "700m"}}}, "", {"cpu": 1000}),
        ({"allocatedResources": {"cpu": "500m"}}, "Deferred", {"cpu": 1000}),
        ({"allocatedResources": {"cpu": "500m"}}, "Infeasible", {"cpu": 500, "memory": GI}),
        (
            {"allocatedResources": {"cpu": "500m"}, "resources": {"requests": {"cpu": "700m"}}}, "Infeasible",
            {"cpu": 700},
        ),
        ({"allocatedResources": {"volcano.sh/vgpu-number": "9", "cpu": "x"}}, "", {"cpu": 1000}),
    ],
)  # fmt: skip
def test_a_container_counts_the_largest_amount(status, condition: str, expected: dict[str, int]) -> None:
    found = resized({"cpu": "1", "memory": "1Gi"}, status=status, condition=condition)
    assert {name: found[name] for name in expected} == expected
    assert found.keys() == {"cpu", "memory"}


def test_an_infeasible_resize_of_earlier_versions_is_in_the_status() -> None:
    status = {"allocatedResources": {"cpu": "500m"}}
    assert resized({"cpu": "1"}, status=status, resize="Infeasible") == {"cpu": 500}
    assert resized({"cpu": "1"}, status=status, resize="InProgress") == {"cpu": 1000}


def test_sidecars_are_resized_too() -> None:
    spec = {
        "nodeName": "n1",
        "containers": [container("c")],
        "initContainers": [container("s", resources={"requests": {"cpu": "1"}}) | {"restartPolicy": "Always"}],
    }
    statuses = [{"name": "s", "resources": {"requests": {"cpu": "3"}}}]
    fact = pod(spec, {"phase": "Running", "initContainerStatuses": statuses})
    assert fact.ask.init_containers[0].get("cpu") == 3000


@pytest.mark.parametrize("state", ["waiting", "ended"])
def test_a_pod_that_waits_or_has_ended_has_the_request_of_its_spec(state: str) -> None:
    spec: dict[str, Any] = {"containers": [container("c", resources={"requests": {"cpu": "1"}})]}
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5"}}]}
    if state == "ended":
        spec["nodeName"], status["phase"] = "n1", "Succeeded"
    assert pod(spec, status).ask.containers[0].get("cpu") == 1000


def test_a_status_of_another_form_counts_nothing() -> None:
    for raw in (b'"x"', b'[{"name":1,"allocatedResources":{"cpu":"2"}}]', b'[{"allocatedResources":{"cpu":["2"]}}]'):
        found: PodFact = decode_pod(
            b'{"metadata":{"name":"a","uid":"u"},"spec":{"nodeName":"n","containers":[{"name":"c","resources":'
            b'{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running","containerStatuses":%b}}' % raw
        )
        assert found.ask.containers[0].get("cpu") == 1000
        assert found.problems == ()


def test_pods_of_one_template_share_a_request_until_one_is_resized() -> None:
    one, two, three = (
        pod(
            {"nodeName": "n1", "containers": [container("c", resources={"requests": {"cpu": "1"}})]},
            {"phase": "Running", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}}]},
        )
        for cpu in ("1", "1", "2")
    )
    assert one.ask is two.ask
    assert three.ask != one.ask


def test_amounts_that_all_pods_of_a_template_report_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubelets report them for each running pod since Kubernetes 1.33, whether it is resized or not."""
    compared = []
    monkeypatch.setattr(resizing, "_resized", lambda containers, *rest: compared.append(containers) or containers)
    amounts = {"cpu": "1", "memory": "1234Mi"}
    for number in range(5):
        status = {"name": "c", "containerID": f"containerd://{number}", "allocatedResources": amounts}
        pod(
            {"nodeName": "n1", "containers": [container("c", resources={"requests": amounts})]},
            {"phase": "Running", "containerStatuses": [status | {"resources": {"requests": amounts}}]},
            uid=f"u{number}",
        )
    assert len(compared) == 2, "containers and init containers of the first"
