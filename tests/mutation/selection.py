"""Which tests can kill a mutant: those that run the statement that it changes, the fastest first."""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Recording:
    """Which test of a group runs which lines, and how long it takes, without a mutant."""

    seconds: dict[str, float]
    """By test, in the order in which they run."""
    lines: dict[str, dict[int, list[str]]]
    """Tests by module, relative to the repository, and line."""

    def tests(self, root: Path, module: Path, line: int) -> list[str]:
        """Return the tests that run the statement of ``line``, the fastest first.

        Those that run anything of the module, if it is a statement of a module or class, which import runs; all tests
        of the group, if none of them runs it in its own process.
        """
        lines = self.lines.get(str(module), {})
        statement = _statement(ast.parse((root / module).read_text()), line)
        found = {test for number in statement for test in lines.get(number, ())} if statement else set()
        if not statement:
            found = {test for tests in lines.values() for test in tests}
        return sorted(found or self.seconds, key=lambda test: self.seconds[test])

    def of(self, file: str) -> "Recording":
        """Return the part of one test file."""
        seconds = {test: taken for test, taken in self.seconds.items() if test.partition("::")[0] == file}
        lines = {
            module: {
                line: mine for line, tests in found.items() if (mine := [test for test in tests if test in seconds])
            }
            for module, found in self.lines.items()
        }
        return Recording(seconds, {module: found for module, found in lines.items() if found})


def read(path: Path) -> Recording:
    """Read what the plugin has recorded."""
    data = json.loads(path.read_text())
    tests = list(data["seconds"])
    lines = {
        module: {int(line): [tests[number] for number in numbers] for line, numbers in found.items()}
        for module, found in data["lines"].items()
    }
    return Recording(data["seconds"], lines)


def write(path: Path, recording: Recording) -> None:
    """Write a recording as the plugin does."""
    position = {test: number for number, test in enumerate(recording.seconds)}
    lines = {
        module: {line: [position[test] for test in tests if test in position] for line, tests in found.items()}
        for module, found in recording.lines.items()
    }
    path.write_text(json.dumps({"seconds": recording.seconds, "lines": lines}))


class Recordings:
    """The recordings of test files, kept between runs as long as neither the file nor the modules of its group change.

    Changes of other modules and of helpers do not count: a recording only chooses tests, and a killed mutant is always
    a test that failed.
    """

    def __init__(self, directory: Path, root: Path, modules: Sequence[Path]) -> None:
        self._directory = directory
        self._root = root
        self._modules = hashlib.sha256(b"".join(path.read_bytes() for path in modules)).hexdigest()

    def known(self, tests: Sequence[Path]) -> dict[Path, Recording]:
        """Return the kept recordings of test files."""
        return {test: read(path) for test in tests if (path := self._path(test)).exists()}

    def keep(self, tests: Sequence[Path], recording: Recording) -> None:
        """Keep a recording of test files, each apart."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for test in tests:
            write(self._path(test), recording.of(str(test)))

    def _path(self, test: Path) -> Path:
        text = f"{self._modules} {test} ".encode() + (self._root / test).read_bytes()
        return self._directory / f"{hashlib.sha256(text).hexdigest()}.json"


def merge(recordings: Iterable[Recording]) -> Recording:
    """Return one recording of the tests of several."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[str]]] = {}
    for recording in recordings:
        seconds |= recording.seconds
        for module, found in recording.lines.items():
            into = lines.setdefault(module, {})
            for line, tests in found.items():
                into.setdefault(line, []).extend(tests)
    return Recording(seconds, lines)


def files(tests: Sequence[str]) -> list[str]:
    """Return the files of tests, each once."""
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _statement(module: ast.Module, line: int) -> range | None:
    """Return the lines of the innermost statement at ``line``, without its body; None outside of functions."""
    chosen: range | None = None
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in _statements(function.body):
            lines = _own_lines(statement)
            if line in lines and (chosen is None or len(lines) <= len(chosen)):
                chosen = lines
    return chosen


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.stmt))


def _own_lines(statement: ast.stmt) -> range:
    inner = [node.lineno for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]
    last = statement.end_lineno or statement.lineno
    return range(statement.lineno, max(statement.lineno, min(inner, default=last + 1) - 1) + 1)
