"""A real nats-server for every test that wants one, on a free port, with a store of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import apiserver as kube
from support.apiserver import ApiServer
from support.natsserver import NatsServer

# How long an example takes says nothing on a machine that does other things; where CI runs, it finds what it found.
settings.register_profile(
    "deviceshare",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deviceshare")


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Give a running nats-server of the test's own."""
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    """Give the URL of a running nats-server of the test's own."""
    return nats_server.url


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give a running kube-apiserver; tests leave it as empty as they found it."""
    server = ApiServer(kube.binaries(), tmp_path_factory.mktemp("kube"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
