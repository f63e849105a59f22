"""Files of recorded cases: compressed ones are read, invalid ones are refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_lab.conformance.command import conformance
from support.recorded_cases import Case, Run, Write, a_case


def test_compressed_file(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(a_case("gpushare-number", by_chance=True)).encode()))
    assert run(path)[1][-1] == "1 passed, 0 failed"


def without(*path: Any) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        part: Any = case
        for name in path[:-1]:
            part = part[name]
        del part[path[-1]]
        return case

    return change


def with_value(value: object, *path: Any) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        part: Any = case
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return case

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda case: "{", "line 2: not JSON: "),
        (lambda case: "[]", "line 2: the line: Expected `object`, got `array`"),
        (without("id"), "line 2: the line: Object missing required field `id`"),
        (without("node"), "line 2: node: a case without batch needs it"),
        (with_value("often", "mode"), "line 2: mode: Invalid enum value 'often'"),
        (with_value("vgpu", "family"), "line 2: family: 'vgpu' is none of gpushare-memory, "),
        (with_value(1, "steps", 0, "op"), "line 2: steps[0].op: Expected `str`"),
        (without("steps", 0, "pod"), "line 2: steps[0]: Object missing required field `pod`"),
        (with_value("no", "steps", 0, "filter", "fits"), "line 2: steps[0].filter.fits: Expected `bool`, got `str`"),
        (with_value(None, "steps", 0, "state"), "line 2: steps[0].state: required for a node with devices"),
        (without("steps", 0, "allocate"), "line 2: steps[0].allocate: required for a pod that fits"),
        (without("steps", 0, "score"), "line 2: steps[0].score: required for a pod that fits"),
        (with_value([[1, 2]], "steps", 0, "state"), "line 2: steps[0].state[0]: expected 3 values, got 2"),
        (with_value("other", "config"), 'line 2: config: "other" needs '),
        (with_value({"deviceshare.SchedulePolicy": "best"}, "args"), "'best' is not valid"),
    ],
)
def test_invalid_line(write: Write, change: Callable[[Case], Case | str], message: str) -> None:
    path = write(a_case("vgpu-hamicore"), change(a_case("vgpu-hamicore", scored=True)))
    with pytest.raises(CommandError) as error:
        conformance([path])
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "the file is empty: expected one JSON object per line"),
        ("blank.jsonl", b"\n \n", "the file is empty: expected one JSON object per line"),
        ("torn.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:15], "Compressed file ended"),
        ("plain.jsonl.gz", b"{}", "Not a gzipped file"),
        ("binary.jsonl", b"\xff\xfe", "line 1: not JSON"),
    ],
)
def test_invalid_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CommandError, match=message) as error:
        conformance([path])
    assert str(error.value).startswith(f"{path}: ")


def test_invalid_device_configuration(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").write_text("nvidia: {gpuMemoryFactor: many}")
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(a_case("vgpu-hamicore") | {"config": "mine"}))
    with pytest.raises(CommandError) as error:
        conformance([path])
    assert "mine.yaml, line 1, column 27: nvidia.gpuMemoryFactor: 'many' is not valid" in str(error.value)
