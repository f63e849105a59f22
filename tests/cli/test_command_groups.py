"""The help of ``deviceshare`` groups its commands."""

import typer
from deviceshare_cli.command_groups import GROUPS
from deviceshare_cli.main import app
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
