"""The report of `deviceshare lab conformance`, as text and as JSON."""

import json
from copy import deepcopy

from deviceshare_lab.conformance.recorded import FORMS
from support.recorded_cases import Run, Write, a_case, change_score, deviating, recorded


def test_deliberate_differences(write: Write, run: Run) -> None:
    plain = [case for case in recorded("gpushare-number") if not case.get("quirk")]
    case = deviating("gpu-share-policy")
    assert "quirk" not in case
    status, lines = run(write(case, *plain[:7]))
    assert status == 0
    # The limit applies to all families together.
    assert "On purpose: 1 of 8 cases without a known defect of Volcano (12.5 %)" in lines
    every = [a_case(family) for family in FORMS]
    status, lines = run(write(case, *every, *plain[:2]))
    assert status == 0
    assert "On purpose: 1 of 9 cases without a known defect of Volcano (11.1 %, at most 12 %)" in lines
    status, lines = run(write(case, *every, plain[0]))
    assert status == 0
    assert "On purpose: 1 of 8 cases without a known defect of Volcano (12.5 %, more than 12 %)" in lines
    assert lines[-1] == "7 passed, 0 failed"


def test_failures(write: Write, run: Run) -> None:
    cases = [case for case in deepcopy(recorded("vgpu-hamicore")) if not case.get("quirk") and case["steps"]][:9]
    for case in cases:
        for step in case["steps"]:
            step["state"] = []
    path = write(*cases)
    lines = run(path)[1]
    assert sum(line.startswith("FAILED") for line in lines) == 3
    assert "… and 6 more failures: --verbose shows all" in lines
    lines = run(path, verbose=True)[1]
    assert sum(line.startswith("FAILED") for line in lines) == 9
    assert sum(line.endswith(": state") for line in lines) == sum(len(case["steps"]) for case in cases)


def test_json(write: Write, run: Run) -> None:
    wrong = a_case("vgpu-hamicore")
    change_score(wrong["steps"][0])
    path = write(a_case("vnpu-hami"), wrong)
    status, lines = run(path, as_json=True)
    shown = json.loads("\n".join(lines))
    assert (status, shown["passed"], shown["failed"]) == (1, 1, 1)
    assert [(each["family"], each["cases"], each["failed"]) for each in shown["families"]] == [
        ("vnpu-hami", 1, 0),
        ("vgpu-hamicore", 1, 1),
    ]
    (failure,) = shown["failures"]
    assert (failure["id"], failure["file"], failure["line"]) == (wrong["id"], str(path), 2)
    (difference,) = failure["differences"]
    assert difference["field"] == "score"
    assert float(difference["recorded"]) == float(difference["ours"]) + 0.5
