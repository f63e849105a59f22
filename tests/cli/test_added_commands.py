"""Commands of other distributions, found by their entry points."""

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest
from deviceshare_cli.main import app
from typer.testing import CliRunner


def give(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)


def test_the_laboratory_is_listed_and_its_commands_run() -> None:
    assert " lab " in CliRunner().invoke(app, ["--help"]).stdout
    assert "allocator" in CliRunner().invoke(app, ["lab", "bench", "--help"]).stdout


@pytest.mark.parametrize("name", ["bench", "chaos", "conformance"])
def test_a_former_command_is_named_by_what_it_is_now(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch)
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 2
    assert f"'{name}' is `deviceshare lab {name}`, of the distribution deviceshare-lab" in done.stderr


def test_without_the_laboratory_its_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch)
    done = CliRunner().invoke(app, ["lab", "bench"])
    assert done.exit_code == 2
    assert "deviceshare-lab, which is not installed" in done.stderr


def test_a_broken_distribution_leaves_the_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, EntryPoint("odd", "deviceshare_no_such:app", "deviceshare.commands"))
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    assert "explain" in done.stdout
    assert "the command odd of deviceshare_no_such:app cannot be loaded: No module named" in done.stderr
