"""A run of the tests of the system starts one API server for all tests that share it."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OTHERS = ("cli", "dashboard", "services", "system")


def scope(config: pytest.Config, nodeid: str) -> str:
    """Return the unit of work to which pytest-xdist adds a test."""
    (conftest,) = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "OneApiServer")]
    scheduler = conftest.OneApiServer.__new__(conftest.OneApiServer)
    return str(scheduler._split_scope(nodeid))


def test_files_on_the_api_server_are_one_unit_of_work(pytestconfig: pytest.Config) -> None:
    shared = (
        "tests/kube/test_up.py::a",
        "tests/contract/test_cluster_writes.py::a[kube]",
        "tests/deploy/test_rotate.py::a",
    )
    assert {scope(pytestconfig, nodeid) for nodeid in shared} == {"apiserver"}
    for directory in OTHERS:
        assert scope(pytestconfig, f"tests/{directory}/test_a.py::b[c/d::e]") == f"tests/{directory}/test_a.py"


def test_no_other_file_uses_it() -> None:
    for directory in OTHERS:
        for file in (TESTS / directory).glob("*.py"):
            assert not re.search(r"def \w+\([^)]*\bapiserver\b[,:)]", file.read_text()), file
