"""`deviceshare conformance`: it compares everything, says what differs, and fails where it should."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMAND = str(Path(sys.executable).parent / "deviceshare")
DATA = Path(__file__).parents[1] / "data" / "golden"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "conformance", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def recorded(family: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((DATA / f"{family}.jsonl.gz").read_bytes()).splitlines()]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write cases as a file with its configurations beside it."""
    (tmp_path / "configs").symlink_to(DATA / "configs")

    def write(*cases: dict[str, Any], name: str = "cases.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(case) + "\n" for case in cases))
        return path

    return write


def a_case(family: str, mode: str = "rebuild") -> dict[str, Any]:
    """Return a recorded case whose first step places a pod, with nothing in it that we do otherwise."""
    for case in recorded(family):
        if case["mode"] != mode or case.get("quirk") or case["args"].get("deviceshare.SchedulePolicy") == "spread":
            continue
        first = case["steps"][0] if case.get("steps") else {}
        if first.get("allocate", {}).get("ok") and not first.get("nondeterministic"):
            return case
    raise AssertionError(family)


def test_what_was_recorded_passes(write: Callable[..., Path]) -> None:
    ended = run(write(a_case("vgpu-hamicore"), a_case("gpushare-number", "cache"), a_case("vgpu-hamicore", "session")))
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.splitlines()[-1] == "3 passed, 0 failed"
    assert ended.stderr == ""


def change_fit(step: dict[str, Any]) -> None:
    step["filter"]["fits"] = False


def change_score(step: dict[str, Any]) -> None:
    step["score"] += 0.5


def change_annotation(step: dict[str, Any]) -> None:
    step["allocate"]["annotations"]["volcano.sh/vgpu-ids-new"] += "GPU-other,NVIDIA,1,1:"


def change_clock(step: dict[str, Any]) -> None:
    step["allocate"]["annotations"]["volcano.sh/vgpu-time"] = "<unix-nanos>"


def change_state(step: dict[str, Any]) -> None:
    step["state"][0][1] += 1


@pytest.mark.parametrize("mode", ["rebuild", "cache", "session"])
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (change_fit, "fits"),
        (change_score, "score"),
        (change_annotation, "annotation volcano.sh/vgpu-ids-new"),
        (change_clock, "annotation volcano.sh/vgpu-time"),
        (change_state, "state"),
    ],
)
def test_any_other_answer_fails(
    write: Callable[..., Path], mode: str, change: Callable[[dict[str, Any]], None], field: str
) -> None:
    case = a_case("vgpu-hamicore", mode)
    change(case["steps"][0])
    ended = run(write(a_case("gpushare-memory"), case))
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert lines[-1] == "1 passed, 1 failed"
    assert lines[0].startswith(f"FAILED {case['id']} (")
    at = next(number for number, line in enumerate(lines) if line.endswith(f": {field}"))
    assert lines[at].startswith("  step 0, place ")
    assert lines[at + 1].startswith("  - ")
    assert lines[at + 2].startswith("  + ")
    assert lines[at + 1][4:] != lines[at + 2][4:]
