"""Our answers are those that Volcano's device code gave, but for deviations that have a reason."""

from pathlib import Path

import pytest
from support.golden import Case, cases, deviation, differences

DATA = Path(__file__).parents[1] / "data" / "golden"
CASES = [case for path in sorted(DATA.glob("*.jsonl")) for case in cases(path)]


@pytest.mark.parametrize("case", [case for case in CASES if not deviation(case)], ids=lambda case: case["id"])
def test_the_same_answer_as_volcano(case: Case) -> None:
    assert differences(case) == []


@pytest.mark.parametrize("mode", ["rebuild", "cache", "session"])
@pytest.mark.parametrize("family", ["vgpu-hamicore", "gpushare-memory", "gpushare-number"])
def test_every_family_is_replayed_in_every_mode(family: str, mode: str) -> None:
    kept = [case for case in CASES if (case["family"], case["mode"]) == (family, mode) and not deviation(case)]
    assert len(kept) >= 8
    assert sum(step.get("fits", False) for case in kept for step in case["steps"]) >= 10


def test_the_deviations_are_the_known_ones() -> None:
    differing = {deviation(case) for case in CASES if deviation(case) and differences(case)}
    assert differing == {
        "a node's lock delays a hand-over, not a decision",
        "a node without vgpu-cores is a vGPU node",
        "an empty item of a type list means nothing",
        "each device of a pod is charged when usage is rebuilt",
    }
