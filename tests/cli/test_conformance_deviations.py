"""A deviation explains exactly its own difference."""

import pytest
from deviceshare_lab.conformance import deviations
from deviceshare_lab.conformance.deviations import DEVIATIONS, MAX_TOGETHER, explanation
from support.recorded_cases import Run, Write, deviating, recorded, replayed

EACH_DEVIATION = pytest.mark.parametrize("name", [each.name for each in DEVIATIONS])
UNSEEN = {
    "registered-node": {"allocatable": ["volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"]},
    "number-only-nodes": {"capacity": ["volcano.sh/gpu-memory"]},
    "unnamed-chips": {"labels": ["node.kubernetes.io/npu.chip.name"]},
}
"""Deviations by which Volcano sees no devices on a node, and the resources or labels whose absence causes it."""


@EACH_DEVIATION
def test_a_deviation_explains_only_its_own_difference(write: Write, run: Run, name: str) -> None:
    case = deviating(name)
    lines = run(write(case))[1]
    assert any(line.split()[:2] == [name, "1"] for line in lines)
    assert lines[-1].endswith(" passed, 0 failed")
    for step in (*case.get("steps", ()), *case.get("batch", {}).get("nodes", ())):
        if step.get("allocate", {}).get("ok"):
            key = next(key for key in step["allocate"]["annotations"] if not key.endswith("time"))
            step["allocate"]["annotations"][key] += "x"
        for row in step.get("state") or ():
            row[1] += 1
    for part, names in UNSEEN.get(name, {}).items():
        # Volcano would see the devices as well.
        case["node"][part] = dict.fromkeys(names, "100") | case["node"][part]
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


@EACH_DEVIATION
def test_a_difference_without_its_deviation_fails(
    write: Write, run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = deviating(name)
    monkeypatch.setattr(deviations, "DEVIATIONS", tuple(each for each in DEVIATIONS if each.name != name))
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_the_smallest_set_of_deviations_explains_a_difference() -> None:
    every = DEVIATIONS[:6]
    together = [every[1], every[3]]
    found = explanation(every, lambda some: set(together) <= set(some) and every[0] not in some)
    assert list(found) == together
    assert list(explanation(every, lambda some: every[4] in some)) == [every[4]]
    assert explanation(every, lambda some: len(some) > MAX_TOGETHER) == ()


def test_the_policy_of_gpu_share_explains_no_difference_of_other_families(write: Write, run: Run) -> None:
    changed = []
    for case, outcome in zip(recorded("vgpu-hamicore"), replayed("vgpu-hamicore"), strict=True):
        if not (outcome.touched or outcome.on_purpose or "deviceshare.SchedulePolicy" in case["args"]):
            changed.append(case | {"args": case["args"] | {"deviceshare.SchedulePolicy": "binpack"}})
    status, lines = run(write(*changed))
    assert status == 1
    assert not any(line.startswith("gpu-share-policy ") for line in lines)
