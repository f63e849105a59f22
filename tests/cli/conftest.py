"""Fixtures of the tests of ``deviceshare lab conformance``."""

import json
from pathlib import Path

import pytest
from deviceshare_lab.conformance.command import conformance
from support.recorded_cases import DATA, Case, Run, Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write cases as a file with the device configurations beside it."""
    (tmp_path / "configs").symlink_to(DATA / "configs")

    def write(*cases: Case | str, name: str = "cases.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join((case if isinstance(case, str) else json.dumps(case)) + "\n" for case in cases))
        return path

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its status and lines."""

    def run(*files: Path, verbose: bool = False, as_json: bool = False) -> tuple[int, list[str]]:
        status = conformance(files, verbose=verbose, json=as_json)
        return status, capsys.readouterr().out.splitlines()

    return run
