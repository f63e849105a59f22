"""`deviceshare lab conformance`: every different answer fails."""

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from deviceshare_lab.conformance.recorded import FORMS
from support.recorded_cases import IDS, Case, Run, Write, a_case, change_score, change_state, recorded, replayed

COMMAND = str(Path(sys.executable).parent / "deviceshare")
MODES = ["rebuild", "cache", "session"]


def test_command_line(write: Write) -> None:
    def called(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "lab", "conformance", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    right, wrong = (a_case("vgpu-hamicore", mode) for mode in ("rebuild", "cache"))
    change_state(wrong["steps"][0])
    ended = called("--verbose", write(right), write(wrong, name="others.jsonl"))
    assert (ended.returncode, ended.stdout.splitlines()[-1], ended.stderr) == (1, "1 passed, 1 failed", "")
    nothing = called("nowhere.jsonl")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == "deviceshare: nowhere.jsonl: No such file or directory\n"


def change_fit(step: Case) -> None:
    step["filter"]["fits"] = False


def change_annotation(step: Case) -> None:
    step["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"


def change_clock(step: Case) -> None:
    step["allocate"]["annotations"]["volcano.sh/vgpu-time"] = "<unix-nanos>"


def drop_annotation(step: Case) -> None:
    del step["allocate"]["annotations"]["volcano.sh/bind-phase"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (change_fit, "fits"),
        (change_score, "score"),
        (change_annotation, f"annotation {IDS}"),
        (change_clock, "annotation volcano.sh/vgpu-time"),
        (drop_annotation, "annotation volcano.sh/bind-phase"),
        (change_state, "state"),
    ],
)
def test_a_different_answer_fails(
    write: Write, run: Run, mode: str, change: Callable[[Case], None], field: str
) -> None:
    case = a_case("vgpu-hamicore", mode, scored=True)
    change(case["steps"][0])
    status, lines = run(write(a_case("gpushare-memory"), case))
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")
    assert lines[0].startswith(f"FAILED {case['id']} (")
    assert lines[0].endswith("cases.jsonl, line 2; - recorded, + ours)")
    at = next(number for number, line in enumerate(lines) if line.endswith(f": {field}"))
    assert lines[at].startswith("  step 0, place ")
    assert (lines[at + 1][:4], lines[at + 2][:4]) == ("  - ", "  + ")
    assert lines[at + 1][4:] != lines[at + 2][4:]


@pytest.mark.parametrize("family", sorted(FORMS))
def test_a_different_state_of_any_family_fails(write: Write, run: Run, family: str) -> None:
    changed: list[Case] = []
    for case, outcome in zip(recorded(family), replayed(family), strict=True):
        if outcome.verdict.steps and "batch" not in case and case["initial"]["present"]:
            changed.append(deepcopy(case))
            for step in changed[-1]["steps"]:
                step["state"][-1][1] += 1
    changed = changed[:60]
    status, lines = run(write(*changed))
    assert (status, lines[-1]) == (1, f"0 passed, {len(changed)} failed")


def test_different_instances_of_a_mig_card_fail(write: Write, run: Run) -> None:
    case = a_case("vgpu-mig")
    kinds = next(kinds for _, kinds in case["steps"][0]["mig"] if kinds)
    kinds[0][1][-1] += 1
    assert run(write(case))[0] == 1


def test_a_different_best_node_fails(write: Write, run: Run) -> None:
    case = next(
        case
        for case, outcome in zip(recorded("vnpu-mindcluster"), replayed("vnpu-mindcluster"), strict=True)
        if len(case.get("batch", {}).get("scores", ())) > 2 and not outcome.verdict.rules
    )
    assert run(write(case))[0] == 0
    changed = deepcopy(case)
    scores = changed["batch"]["scores"]
    best, other = (choose(scores, key=scores.__getitem__) for choose in (max, min))
    scores[best], scores[other] = scores[other], scores[best]
    status, lines = run(write(changed))
    assert status == 1
    assert lines[1].endswith(": best node")


def test_any_of_equally_full_nodes_is_the_best(write: Write, run: Run) -> None:
    case = next(
        deepcopy(each) for each in recorded("vnpu-mindcluster") if len(each.get("batch", {}).get("scores", ())) > 2
    )
    scores = case["batch"]["scores"]
    best = max(scores, key=scores.__getitem__)
    twin = json.loads(
        json.dumps(next(n for n in case["batch"]["nodes"] if n["node"]["name"] == best)).replace(best, "a")
    )
    case["batch"]["nodes"].append(twin)
    scores["a"] = 0
    assert run(write(case))[1][-1] == "1 passed, 0 failed"
    twin["node"]["allocatable"]["huawei.com/npu-core"] = twin["node"]["capacity"]["huawei.com/npu-core"] = "800"
    twin["extra"]["idle_npu_core"] += 800 - 8 * len(twin["state"])
    scores[best], scores["a"] = scores["a"], scores[best]  # the emptier node becomes Volcano's best
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_any_recorded_alternative_of_a_random_choice_passes(write: Write, run: Run) -> None:
    case = a_case("vnpu-mindcluster", by_chance=True)
    step = case["steps"][0]
    choice = step["allocate"]["annotations"]["huawei.com/npu-core"]
    other = step["alternatives"][0]
    one, two = (int(each[0]) for each in (choice, other))
    # Another of the equal chips is the recorded one.
    step["allocate"]["annotations"]["huawei.com/npu-core"], step["alternatives"] = other, [choice]
    step["state"][one][1:], step["state"][two][1:] = step["state"][two][1:], step["state"][one][1:]
    case["steps"] = [step]
    assert run(write(case))[0] == 0
    step["alternatives"] = []
    assert run(write(case))[0] == 1


def test_comparison_ends_at_the_first_step_that_a_known_defect_affected(write: Write, run: Run) -> None:
    case = a_case("vgpu-hamicore")
    for step in case["steps"][1:]:
        step["state"] = [[99, 99, 99]] * len(step["state"])
    assert run(write(case))[0] == 1
    case["steps"][1]["quirks"] = ["vgpu-zero-number"]
    case["quirk"] = "vgpu-zero-number"
    status, lines = run(write(case))
    assert status == 0
    assert f"1 of {len(case['steps'])}" in "\n".join(lines)
