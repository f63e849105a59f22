"""Life-cycle stages of pods by kwok's annotations."""

from typing import Any

import pytest
from deviceshare_localcluster.stages import Stage, StageProblem, entered, next_stage, parse_duration, waits

START = 1_790_000_000.0
STARTED = "2026-09-21T14:13:20Z"


def pod(phase: str = "Running", policy: str = "Never", labels: Any = None, **stages: str) -> dict[str, Any]:
    annotations = {
        f"{name.replace('_', '-')}.stage.kwok.x-k8s.io/{field}": value
        for name, fields in stages.items()
        for field, _, value in [each.partition("=") for each in fields.split()]
    }
    return {
        "metadata": {"name": "a", "uid": "u", "annotations": annotations, "labels": labels or {}},
        "spec": {"nodeName": "n", "restartPolicy": policy},
        "status": {"phase": phase, "startTime": STARTED},
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("0", 0),
        ("1h0m1s", 3601),
        ("99999999h", 315_360_000),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "-5s", "5 s", "1d", "s", "1s1"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(StageProblem):
        parse_duration(text)


def test_a_pod_without_annotations_has_no_stages() -> None:
    assert next_stage(pod()) is None
    assert not waits(pod("Pending"))


def test_a_pod_ends_after_its_duration() -> None:
    assert next_stage(pod(pod_complete="delay=30s")) == Stage("Succeeded", START + 30)
    assert next_stage(pod(policy="Always", pod_complete="delay=30s")) is None
    assert next_stage(pod("Succeeded", pod_complete="delay=30s")) is None
    waiting = pod("Pending", pod_complete="delay=30s")
    del waiting["spec"]["nodeName"]
    assert next_stage(waiting) is None


def test_a_pod_starts_after_its_delays_and_its_duration_counts_from_then() -> None:
    slow = pod("Pending", pod_create="delay=2s", pod_ready="delay=3s", pod_complete="delay=10s")
    assert waits(slow)
    assert next_stage(slow) == Stage("Running", START + 5)
    entered(slow, "Running", START + 5)
    assert next_stage(slow) == Stage("Succeeded", START + 15)
    entered(slow, "Succeeded", START + 15)
    assert next_stage(slow) is None
    assert [(one["type"], one["status"]) for one in slow["status"]["conditions"]] == [("Ready", "False")]


def test_a_pod_of_a_manifest_with_a_node_has_started_when_it_was_created() -> None:
    loaded = pod(pod_complete="delay=30s")
    loaded["metadata"]["creationTimestamp"] = loaded["status"].pop("startTime")
    assert next_stage(loaded) == Stage("Succeeded", START + 30)


def test_jitter_is_between_the_delay_and_the_jitter_delay_and_the_same_each_time() -> None:
    jittered = pod(pod_complete="delay=10s jitter-delay=20s")
    stage = next_stage(jittered)
    assert START + 10 <= stage.at <= START + 20
    assert next_stage(jittered) == stage
    other = pod(pod_complete="delay=10s jitter-delay=20s")
    other["metadata"]["uid"] = "other"
    assert next_stage(other) != stage


def test_a_pod_with_the_label_of_the_failing_stage_fails() -> None:
    label = {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"}
    assert next_stage(pod(labels=label)) == Stage("Failed", START + 1)
    failing = pod(policy="Always", labels=label, pod_container_running_failed="delay=5s", pod_complete="delay=1s")
    assert next_stage(failing) == Stage("Failed", START + 5)


def test_an_invalid_delay_is_named() -> None:
    with pytest.raises(StageProblem, match=r"metadata\.annotations\[pod-complete\.stage\.kwok\.x-k8s\.io/delay\]: 'x'"):
        next_stage(pod(pod_complete="delay=x"))
    assert not waits(pod("Pending", pod_ready="delay=x"))
