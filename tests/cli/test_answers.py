"""docs/answers.md: each command runs on the running examples and prints what the page shows of it."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.up_commands import EXAMPLES, UpSystem, running_up

PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text()
CONSOLES = "".join(re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
ANSWERS = [
    (shlex.split(command)[1:], shown.splitlines()[:1])
    for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", CONSOLES, re.MULTILINE)
]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpSystem]:
    found = UpSystem(tmp_path_factory.mktemp("answers"))
    with running_up(found, "--cluster", f"local:{EXAMPLES}", "--conf", str(EXAMPLES / "volcano-scheduler.conf")):
        yield found


def test_the_page_has_the_questions_and_their_commands() -> None:
    assert len(re.findall(r"^## .*\?$", PAGE, re.MULTILINE)) == 6
    assert len(ANSWERS) == 11


@pytest.mark.system
@pytest.mark.parametrize(("arguments", "first"), ANSWERS, ids=lambda each: shlex.join(each) if len(each) > 1 else "")
def test_the_command_prints_what_the_page_shows(system: UpSystem, arguments: list[str], first: list[str]) -> None:
    done = system.command(*arguments)
    # Pods of the examples that nothing creates again, if the card has any, need --force.
    assert done.returncode == 0 or (arguments[0] == "drain" and "--force" in done.stderr), done.stderr
    # No pod of the examples waits only for fragmentation.
    empty = "--force" in done.stderr or (arguments[-1] == "fragmented" and done.stderr == "No resources found\n")
    assert done.stdout.strip() or empty
    # Columns are as wide as their contents.
    assert [line.split() for line in done.stdout.splitlines()[:1]] == [line.split() for line in first] or not first
