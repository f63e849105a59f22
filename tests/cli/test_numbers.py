"""Numbers of the command line: what is not finite is wrong usage of the option, for every option."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.core
from deviceshare_cli.main import app
from typer.testing import CliRunner


def float_options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for param in command.params:
        if "float" in param.type.name:
            yield path, max(param.opts, key=len)
    if isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from float_options(command.get_command(context, name), (*path, name))


OPTIONS = list(float_options(typer.main.get_command(app)))


def test_all_options_are_found() -> None:
    assert {(("up",), "--timeout"), (("lab", "bench", "bus"), "--rate"), (("lab", "study", "trace"), "--load")} < set(
        OPTIONS
    )
    assert len(OPTIONS) > 12


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=lambda value: "-".join(value))
def test_what_is_not_finite_is_refused(path: tuple[str, ...], option: str, text: str) -> None:
    done = CliRunner().invoke(app, [*path, f"{option}={text}"])
    assert (done.exit_code, done.exception.__class__) == (2, SystemExit)
    assert f"Invalid value for '{option}'" in done.stderr
    assert f"{text} is not" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["up", "--timeout", "nan"], "nan is not valid: expected a finite number, 0 or more"),
        (["lab", "bench", "bus", "--fill", "nan"], "nan is not valid: expected a number from 0 to 1"),
        (["lab", "study", "trace", "--load", "inf"], "inf is not valid: expected a finite number"),
    ],
)
def test_the_message_says_what_would_be_right(arguments: list[str], expected: str) -> None:
    assert expected in CliRunner().invoke(app, arguments).stderr
