"""The help of ``deviceshare`` groups its commands; its version and completion."""

import os
import re
import subprocess

import typer
from deviceshare_cli.command_groups import GROUPS
from deviceshare_cli.main import app
from support.system import COMMAND
from typer.testing import CliRunner


def test_each_command_of_this_distribution_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(typer.main.get_command(app).commands)


def test_the_help_shows_the_groups_in_order_and_those_of_other_distributions_last() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    titles = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[-len(GROUPS) - 1 :] == [*GROUPS, "Further commands"]
    assert shown.index("Further commands:") < shown.index("\n  lab ")
    assert shown.index("Look:") < shown.index("\n  explain ") < shown.index("Change the local cluster:")


def test_the_version_and_completion() -> None:
    version = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"deviceshare \d+\.\d+\.\d+\n", version.stdout)
    environment = {
        **os.environ,
        "_DEVICESHARE_COMPLETE": "complete_bash",
        "COMP_WORDS": "deviceshare expl",
        "COMP_CWORD": "1",
    }
    completed = subprocess.run([COMMAND], capture_output=True, text=True, env=environment)
    assert completed.stdout.strip() == "explain"
