"""Which tests can kill a mutant: those that run the statement that it changes, the fastest first."""

import ast
import json
from collections.abc import Iterator, Sequence
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


def read(path: Path) -> Recording:
    """Read what the plugin has recorded."""
    data = json.loads(path.read_text())
    tests = list(data["seconds"])
    lines = {
        module: {int(line): [tests[number] for number in numbers] for line, numbers in found.items()}
        for module, found in data["lines"].items()
    }
    return Recording(data["seconds"], lines)


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
