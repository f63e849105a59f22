"""The measurement itself: every module is in one group, the sample is seeded, and only failing tests kill."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import wait_until_dead

from mutation import report, workers
from mutation.equivalent import EQUIVALENT, find
from mutation.groups import GROUPS
from mutation.mutants import Mutant, sample
from mutation.selection import Recording
from mutation.workers import Copy, Run, Verdict

ROOT = Path(__file__).parents[2]
NUMBERS = Path("libs/deviceshare/src/deviceshare/numbers.py")
CODE = """
def larger(a: int | None, b: int = 1) -> int:
    if a > b:
        return a
    return b


def count(most):
    number = 0
    while number != most:
        number += 1
    return number
"""
TESTS = """
from deviceshare.numbers import count, larger

def test_larger():
    assert larger(2, 1) == 2
    assert count(3) == 3
"""


def test_every_module_is_in_one_group_and_every_pattern_finds_tests() -> None:
    modules = [path for group in GROUPS for path in group.modules(ROOT)]
    assert len(modules) == len(set(modules))
    expected = {
        path
        for source in (
            "libs/deviceshare/src",
            "libs/deviceshare-bus/src",
            "libs/deviceshare-cluster/src",
            "libs/deviceshare-localcluster/src",
            "services",
        )
        for path in (ROOT / source).rglob("*.py")
        if path.name != "__main__.py" and not {"kube", "build"} & set(path.parts)
    }
    assert {path for path in expected - set(modules) if ast.parse(path.read_text()).body[1:]} <= {
        ROOT / "libs/deviceshare/src/deviceshare/__init__.py"
    }
    for group in GROUPS:
        assert [pattern for pattern in group.tests.split() if not list((ROOT / "tests").glob(pattern))] == [], (
            group.name
        )


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start pytest with the plugin that its command needs: it takes half the time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_timeout")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Give a repository with one module and one test."""
    root = tmp_path / "checkout"
    package = root / "libs" / "deviceshare" / "src" / "deviceshare"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "numbers.py").write_text(CODE)
    (root / "tests").mkdir()
    (root / "tests" / "test_numbers.py").write_text(TESTS)
    return root


def test_a_sample_is_seeded_has_each_place_once_and_leaves_types_alone(repository) -> None:
    module = repository / "libs" / "deviceshare" / "src" / "deviceshare" / "numbers.py"
    mutants = sample(repository, "numbers", [module], 100, seed=1)
    assert mutants == sample(repository, "numbers", [module], 100, seed=1)
    assert mutants != sample(repository, "numbers", [module], 100, seed=2)
    assert mutants[:3] == sample(repository, "numbers", [module], 3, seed=1)
    assert {mutant.line for mutant in mutants} == {2, 3, 9, 10, 11}
    assert all("a: int | None" in mutant.code for mutant in mutants)
    assert module.read_text() == CODE


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("a > b", "a < b", Verdict.KILLED),
        ("a > b", "a >= b", Verdict.SURVIVED),
        ("b: int = 1", "b: int = 1 + None", Verdict.INVALID),
        ("number += 1", "number += 0", Verdict.KILLED),
        ("def count(most)", "while True: pass\ndef count(most)", Verdict.TIMEOUT),
    ],
)
def test_only_a_failing_test_kills(repository, tmp_path, monkeypatch, before, after, verdict) -> None:
    monkeypatch.setattr(workers, "TEST_TIMEOUT", 2.0)
    monkeypatch.setattr(workers, "MIN_TIMEOUT", 4.0 if verdict is Verdict.TIMEOUT else 60.0)
    copy = Copy(repository, tmp_path / "copy", compiled=True)
    mutant = Mutant("numbers", NUMBERS, 3, "x", CODE.replace(before, after))
    recording = Recording({"tests/test_numbers.py::test_larger": 0.1}, {})
    assert copy.run(mutant, recording, confirmed=False).verdict is verdict
    assert (copy.root / NUMBERS).read_text() == (repository / NUMBERS).read_text() == CODE
    shutil.rmtree(copy.root)


def test_a_test_that_fails_without_the_mutant_as_well_does_not_kill(repository, tmp_path) -> None:
    (repository / "tests" / "test_unreliable.py").write_text("""
from pathlib import Path

def test_fails_always():
    assert not Path("tests").exists()
""")
    copy = Copy(repository, tmp_path / "copy", compiled=True)
    recording = Recording(
        {"tests/test_unreliable.py::test_fails_always": 0.1, "tests/test_numbers.py::test_larger": 1.0}, {}
    )
    mutant = Mutant("numbers", NUMBERS, 3, "x", CODE.replace("a > b", "a >= b"))
    assert copy.run(mutant, recording, confirmed=True).verdict is Verdict.SURVIVED


def test_the_tests_of_a_mutant_are_those_that_run_its_statement(repository, tmp_path) -> None:
    (repository / "tests" / "test_more.py").write_text("""
import asyncio
import time
from deviceshare.numbers import count, larger

async def in_another_task():
    return larger(1, 2)

def test_counts():
    assert count(1) == 1

def test_larger_slowly():
    time.sleep(0.3)
    assert asyncio.run(in_another_task()) == 2
""")
    copy = Copy(repository, tmp_path / "copy", compiled=True)
    run, recording = copy.baseline([Path("tests/test_more.py"), Path("tests/test_numbers.py")])
    assert run.verdict is Verdict.SURVIVED
    slowly, counts, both = (
        "tests/test_more.py::test_larger_slowly",
        "tests/test_more.py::test_counts",
        "tests/test_numbers.py::test_larger",
    )
    assert recording.tests(repository, NUMBERS, 3) == [both, slowly]
    assert recording.tests(repository, NUMBERS, 5) == [slowly]
    assert set(recording.tests(repository, NUMBERS, 9)) == {counts, both}
    assert set(recording.tests(repository, NUMBERS, 2)) == {counts, both, slowly}
    found = copy.run(
        Mutant("numbers", NUMBERS, 5, "x", CODE.replace("return b", "return None")), recording, confirmed=False
    )
    assert (found.verdict, found.test) == (Verdict.KILLED, slowly)


def result(verdict: Verdict, group: str = "numbers") -> report.Result:
    return report.Result(Mutant(group, Path("x.py"), 1, "AddNot", "code"), Run(verdict, 1.0))


def test_timeouts_count_as_not_killed_and_invalid_mutants_not_at_all() -> None:
    results = [result(Verdict.KILLED)] * 7 + [
        result(Verdict.SURVIVED),
        result(Verdict.TIMEOUT),
        result(Verdict.INVALID),
        result(Verdict.EQUIVALENT),
    ]
    assert report.rate(results) == 7 / 9
    assert report.table(results).splitlines()[2] == "| numbers | 11 | 7 | 1 | 1 | 1 | 1 | 78% |"
    assert report.weak(results) == [
        "numbers: 78% of the mutants killed, at least 80% expected",
        "all: 78% of the mutants killed, at least 88% expected",
    ]
    assert report.weak([result(Verdict.KILLED)]) == []


def test_an_equivalent_mutant_is_one_change_of_a_line_that_still_stands_there() -> None:
    for entry in EQUIVALENT:
        (path,) = [path for top in ("libs", "services") for path in ROOT.glob(f"{top}/*/src/{entry.path}")]
        source = path.read_text()
        line = next(line for line in source.splitlines() if line.strip() == entry.before)
        assert entry.reason.endswith(".")
        changed = Mutant(
            "x", path.relative_to(ROOT), 1, "x", source.replace(line, line.replace(entry.before, entry.after), 1)
        )
        assert find(changed, source) is entry
        assert find(Mutant("x", changed.path, 1, "x", source + "x = 1\n"), source) is None


ENDLESS = """
import os
import subprocess
import sys
import time
from pathlib import Path

def test_never_ends():
    command = [sys.executable, "-c", "while True: pass"]
    inside = subprocess.Popen(command)
    outside = subprocess.Popen(command, start_new_session=True)
    pids = Path(os.environ["STARTED"])
    pids.with_suffix(".tmp").write_text(f"{os.getpid()} {inside.pid} {outside.pid}")
    pids.with_suffix(".tmp").rename(pids)
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_runs_on_when_the_measurement_is_interrupted(repository, tmp_path, number) -> None:
    (repository / "tests" / "test_numbers.py").write_text(ENDLESS)
    pids, temporary = tmp_path / "pids", tmp_path / "temporary"
    temporary.mkdir()
    script = f"""
import sys
from pathlib import Path
from mutation import __main__ as command
from mutation.groups import Group

command.ROOT = Path({str(repository)!r})
command.GROUPS = (Group("numbers", ("libs/deviceshare/src/deviceshare",), "test_numbers.py"),)
sys.exit(command.main())
"""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"), "STARTED": str(pids), "TMPDIR": str(temporary), "MUTATE_WORKERS": "1",
        "MUTATE_REPORT": str(tmp_path / "report.md"), "MUTATE_GROUPS": "",
    }  # fmt: skip
    # A process group of its own, as a shell gives to a command; the sessions of the tests are not part of it.
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL, process_group=0
    ) as process:
        wait_until(pids.exists)
        os.killpg(process.pid, number)
        process.wait(20)
    wait_until_dead(map(int, pids.read_text().split()), 10)
    if number != signal.SIGKILL:
        assert list(temporary.glob("deviceshare-mutants-*")) == []


def test_a_timeout_ends_what_left_the_session_of_the_tests(repository, tmp_path, monkeypatch) -> None:
    (repository / "tests" / "test_numbers.py").write_text(ENDLESS)
    monkeypatch.setenv("STARTED", str(tmp_path / "pids"))
    monkeypatch.setattr(workers, "MIN_TIMEOUT", -50.0)
    copy = Copy(repository, tmp_path / "copy", compiled=True)
    recording = Recording({"tests/test_numbers.py::test_never_ends": 0.0}, {})
    mutant = Mutant("numbers", NUMBERS, 3, "x", CODE)
    assert copy.run(mutant, recording, confirmed=False).verdict is Verdict.TIMEOUT
    wait_until_dead(map(int, (tmp_path / "pids").read_text().split()))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
