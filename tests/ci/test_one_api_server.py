"""A run of the tests of the system starts one API server for all tests that share it."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OTHERS = ("cli", "dashboard", "services", "system")


def scope(config: pytest.Config, marker: str, nodeid: str) -> str:
    """Return the unit of work to which pytest-xdist adds a test in a run of the tests with a marker."""
    (conftest,) = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "OneServer")]
    scheduler = conftest.OneServer.__new__(conftest.OneServer)
    scheduler._apart = conftest.APART[marker]
    return str(scheduler._split_scope(nodeid))


def test_files_on_the_api_server_are_one_unit_of_work(pytestconfig: pytest.Config) -> None:
    shared = (
        "tests/kube/test_up.py::a",
        "tests/contract/test_cluster_writes.py::a[kube]",
        "tests/deploy/test_rotate.py::a",
    )
    assert {scope(pytestconfig, "system", nodeid) for nodeid in shared} == {"shared"}
    for directory in OTHERS:
        name = f"tests/{directory}/test_a.py"
        assert scope(pytestconfig, "system", f"{name}::b[c/d::e]") == name


def test_files_on_the_node_are_one_unit_of_work(pytestconfig: pytest.Config) -> None:
    files = {f"tests/node/{path.name}" for path in (TESTS / "node").glob("test_*.py")}
    apart = {name for name in files if scope(pytestconfig, "node", f"{name}::a") == name}
    assert apart == {"tests/node/test_compose_run.py", "tests/node/test_dry_run_beside_volcano.py"}
    assert {scope(pytestconfig, "node", f"{name}::a") for name in files - apart} == {"shared"}


def test_no_other_file_uses_it() -> None:
    for directory in OTHERS:
        for file in (TESTS / directory).glob("*.py"):
            assert not re.search(r"def \w+\([^)]*\bapiserver\b[,:)]", file.read_text()), file
