"""A pytest plugin of the measurement: record which test runs which lines, or run a selection of tests.

MUTATION_RECORD: the file to write, as JSON: ``seconds`` of each test, and ``lines``: module to line to tests, as
positions in ``seconds``. MUTATION_SOURCES: the directories whose modules are recorded. MUTATION_SELECTION: a file with
the tests to run, in this order.
"""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Start what the environment asks for."""
    if record := os.environ.get("MUTATION_RECORD"):
        config.pluginmanager.register(_Recorder(Path(record), os.environ["MUTATION_SOURCES"].split(os.pathsep)))
    if selection := os.environ.get("MUTATION_SELECTION"):
        config.pluginmanager.register(_Selection(json.loads(Path(selection).read_text())))


class _Recorder:
    def __init__(self, path: Path, sources: list[str]) -> None:
        self._path = path
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{source}/*" for source in sources], messages=False
        )
        self._coverage.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
        self._coverage.start()
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.monotonic() - begun
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        position = {test: number for number, test in enumerate(self._seconds)}
        lines = {
            os.path.relpath(module): {
                line: sorted(position[test] for test in tests if test)
                for line, tests in data.contexts_by_lineno(module).items()
            }
            for module in data.measured_files()
        }
        self._path.write_text(json.dumps({"seconds": self._seconds, "lines": lines}))


class _Selection:
    def __init__(self, tests: list[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )
