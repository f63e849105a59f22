"""Fixtures: a real nats-server, on a free port and with its own store, and a kube-apiserver."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import apiserver as kube
from support.apiserver import ApiServer
from support.natsserver import NatsServer

# No deadline: the machine may be busy. In CI the inputs are the same in every run.
settings.register_profile(
    "deviceshare",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deviceshare")


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
