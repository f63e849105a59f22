"""The README: short, and its commands do what it says."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.charts import helm
from support.up_commands import EXAMPLES, UpSystem, running_up

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIRST_STEPS = (ROOT / "docs" / "first-steps.md").read_text()
WORD_LIMIT = 900


def lines_of_consoles(page: str) -> list[list[str]]:
    """Return the words of each command in the console blocks of a page, without comments."""
    consoles = "\n".join(re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    prompt = "$ " if "\n$ " in f"\n{consoles}" else ""
    lines = [line.removeprefix(prompt) for line in consoles.splitlines() if line.startswith(prompt)]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def commands(page: str) -> list[list[str]]:
    """Return the arguments of ``deviceshare`` in each command of a page that runs it."""
    return [words[1:] for words in lines_of_consoles(page) if words[0] == "deviceshare"]


def test_the_readme_is_short():
    assert len(README.split()) <= WORD_LIMIT


def test_each_command_of_the_readme_is_run_by_a_test_or_by_the_gate():
    gate = (ROOT / ".ci" / "run").read_text()
    for words in lines_of_consoles(README):
        if words == ["make", "run"]:
            assert "test_ctrl_c_ends_make_run" in (ROOT / "tests" / "cli" / "test_first_contact.py").read_text()
        elif words[0] == "make":
            assert re.search(rf"^.*{re.escape(shlex.join(words))}$", gate, re.MULTILINE), words
        else:
            assert words[0] in ("alias", "deviceshare", "helm"), words


def test_the_chart_is_installed_by_the_command_of_the_readme():
    (install,) = [words[1:] for words in lines_of_consoles(README) if words[0] == "helm"]
    assert install[0] == "install"
    done = helm("template", *install[1:])
    assert done.returncode == 0, done.stderr
    for service in ("inventory", "placement", "binder", "metrics"):
        assert re.search(rf"^kind: Deployment\n(.*\n)*?  name: {service}$", done.stdout, re.MULTILINE), service


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpSystem]:
    found = UpSystem(tmp_path_factory.mktemp("examples"))
    conf = str(EXAMPLES / "volcano-scheduler.conf")
    with running_up(found, "--cluster", f"local:{EXAMPLES}", "--conf", conf):
        yield found


@pytest.mark.system
@pytest.mark.parametrize("arguments", commands(README), ids=shlex.join)
def test_commands_of_the_readme_on_the_running_examples(system: UpSystem, arguments: list[str]) -> None:
    assert system.out(*arguments).strip()


@pytest.mark.system
def test_the_change_of_the_first_steps(system: UpSystem, tmp_path: Path) -> None:
    (manifest,) = re.findall(r"^```yaml\n(.*?)^```", FIRST_STEPS, re.DOTALL | re.MULTILINE)
    (tmp_path / "big.yaml").write_text(manifest)
    changes = [words for words in commands(FIRST_STEPS) if "big" in words or "big.yaml" in words]
    assert [words[0] for words in changes] == ["apply", "explain", "delete"]
    outputs = []
    for words in changes:
        done = system.command(*words, directory=tmp_path)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] in FIRST_STEPS
    assert "Insufficient volcano.sh/gpu-memory on one card (asked 20000 MiB" in outputs[1]
    assert "Insufficient volcano.sh/gpu-memory on one card (asked 20000 MiB" in FIRST_STEPS
    assert outputs[2] in FIRST_STEPS
