"""Fixtures: a real nats-server, on a free port and with its own store, and a kube-apiserver.

Tests that start the services as processes, an API server or a browser have the marker ``system``: ``make test-system``
runs them, ``make test`` runs all others.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support import apiserver as kube
from support.apiserver import ApiServer
from support.garbage import exempt_all
from support.natsserver import NatsServer
from xdist.scheduler import LoadFileScheduling

# No deadline: the machine may be busy. In CI the inputs are the same in every run.
settings.register_profile(
    "deviceshare",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deviceshare")

gc.disable()  # until all tests are collected

_OF_THE_SYSTEM = {"dashboard", "kube", "system"}
APART = {
    "system": ("tests/cli/", "tests/dashboard/", "tests/services/", "tests/system/"),
    "node": ("tests/node/test_compose_run.py", "tests/node/test_dry_run_beside_volcano.py"),
}
"""By marker the files that do not need what the others share, an API server or a node."""
_FIRST = (
    "tests/kube/",
    "tests/system/test_chaos_seeds.py",
    "tests/chaos/test_histories.py",
    "tests/cli/test_conformance_sessions.py",
    "tests/cli/test_simulate_partitions.py",
)
"""What takes long and begins first, so that no process is left with it at the end."""


class OneServer(LoadFileScheduling):
    """Gives whole files to a process, and all but those whose names begin so to one, which starts what they share."""

    def __init__(self, config: pytest.Config, log: Any, apart: tuple[str, ...]) -> None:
        super().__init__(config, log)
        self._apart = apart

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid) if nodeid.startswith(self._apart) else "shared"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneServer | None:
    """Start one API server in a run of the tests of the system, and one node in one of the tests on it."""
    apart = APART.get(config.getoption("markexpr"))
    return None if apart is None else OneServer(config, log, apart)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of the system, and of a real node, that are known by their directory or fixture."""
    if item.path.parent.name == "node":
        item.add_marker("node")
        return
    if item.path.parent.name in _OF_THE_SYSTEM or "apiserver" in getattr(item, "fixturenames", ()):
        item.add_marker("system")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long."""
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


def pytest_collection_finish() -> None:
    """Exempt the modules and the collected tests from the collections of garbage: they live until the end."""
    exempt_all()
    gc.enable()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Give a running nats-server for one test."""
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    """Give the URL of a running nats-server for one test."""
    return nats_server.url


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give a running kube-apiserver; tests delete the objects that they create."""
    server = ApiServer(kube.binaries(), tmp_path_factory.mktemp("kube"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
