"""The phase of a Job of Volcano, which the local cluster writes as Volcano's controller does."""

from typing import Any

import msgspec
import pytest
from deviceshare_localcluster import LocalCluster
from deviceshare_localcluster.admission import Priorities, admit
from deviceshare_localcluster.job_phases import next_phase
from deviceshare_localcluster.kinds import Key
from support.controlled import controlled
from support.job_manifests import job
from support.malformed import put_raw
from support.waiting import until

R, P, S, F = "Running", "Pending", "Succeeded", "Failed"


def phase_of(given: dict[str, Any], *pods: str, task: str = "t") -> str:
    admitted = admit(given, uid="u", now="2026-01-01T00:00:00Z", priorities=Priorities()).object
    return next_phase(admitted, {f"j-{task}-{index}": phase for index, phase in enumerate(pods)})


@pytest.mark.parametrize(
    ("pods", "before", "then"),
    [
        ((), "", "Pending"),
        ((P, R), "", "Pending"),
        ((R, R), "", "Running"),
        ((S, R), "Running", "Running"),
        ((S, S), "Running", "Completed"),
        ((S, S), "", "Completed"),
        ((F, F), "Running", "Failed"),
        ((S, F), "", "Failed"),
        ((P, R), "Running", "Pending"),
        ((S, S), "Failed", "Failed"),
        ((R, R), "Completed", "Completed"),
        ((R, R), "Restarting", "Running"),
    ],
)
def test_a_job_has_the_phase_that_its_pods_give_it(pods: tuple[str, ...], before: str, then: str) -> None:
    assert phase_of(job({"replicas": 2}, phase=before), *pods) == then


def test_failures_below_the_minimums_do_not_fail_a_job() -> None:
    assert phase_of(job({"replicas": 2, "minAvailable": 1}), S, F) == "Completed"
    assert phase_of(job({"replicas": 3}, minSuccess=1), S, R, R) == "Completed"
    assert phase_of(job({"replicas": 2, "minAvailable": 1}, minSuccess=2), S, F) == "Failed"
    assert phase_of(job({"replicas": 2}, minAvailable=1), S, F) == "Completed"


async def phase(cluster: LocalCluster) -> str:
    (found,) = await cluster.list("Job")
    return str(found["status"]["state"]["phase"])


async def bind_all(cluster: LocalCluster) -> None:
    for pod in await cluster.list("Pod"):
        metadata = pod["metadata"]
        await cluster.bind("default", metadata["name"], metadata["uid"], "n", {})


@pytest.mark.parametrize(
    ("labels", "annotations", "then"),
    [
        (
            {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"},
            {"pod-ready.stage.kwok.x-k8s.io/delay": "0s"},
            F,
        ),
        ({}, {"pod-complete.stage.kwok.x-k8s.io/delay": "100ms"}, "Completed"),
    ],
)
async def test_a_job_whose_pods_failed_is_not_completed(
    local: LocalCluster, labels: dict[str, str], annotations: dict[str, str], then: str
) -> None:
    async with controlled(local):
        await local.apply(job({"replicas": 2}, template={"labels": labels, "annotations": annotations}))
        await until(lambda: local.list("Pod"), lambda pods: len(pods) == 2)
        assert await phase(local) == "Pending"
        await bind_all(local)
        await until(lambda: phase(local), lambda now: now == then)


async def test_a_job_that_has_ended_makes_no_pods(local: LocalCluster) -> None:
    await local.apply(job({"replicas": 1}, phase="Failed"))
    await local.apply({**job({"replicas": 1}), "metadata": {"name": "next"}})
    async with controlled(local):
        await until(lambda: local.list("Pod"))
        assert [pod["metadata"]["name"] for pod in await local.list("Pod")] == ["next-t-0"]


@pytest.mark.parametrize("status", [None, 7, {}, {"state": 7}, {"state": {}}, {"state": {"phase": 7}}])
async def test_a_stored_job_without_a_phase_is_pending_and_gets_its_pods(local: LocalCluster, status: object) -> None:
    """Such as a Job that an earlier version stored, which wrote no phase."""
    stored = admit(job({"replicas": 1}), uid="u", now="2026-01-01T00:00:00Z", priorities=Priorities()).object
    data = msgspec.json.encode(stored | {"status": status})
    await put_raw(local, Key("Job", "default", "j").subject, data)
    async with controlled(local):

        async def is_played() -> bool:
            (found,) = await local.list("Job")
            written = (found.get("status") or {}).get("state") == {"phase": "Pending"}
            return written and len(await local.list("Pod")) == 1

        await until(is_played)
