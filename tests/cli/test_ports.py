"""A port that a system has chosen stays its own, also while the server on it restarts."""

import random
import socket
import sys

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.ports import LOOPBACK, free_port, metrics_port


@pytest.mark.skipif(sys.platform != "linux", reason="allowed: only Linux can reserve a port")
def test_a_chosen_port_is_not_chosen_again_and_a_server_on_it_can_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(random, "sample", lambda ports, k: [port])
    for _ in range(2):
        with socket.create_server((LOOPBACK, port)) as server:
            socket.create_connection((LOOPBACK, port)).close()
            server.accept()[0].close()
            with pytest.raises(CommandError):
                free_port()
        with pytest.raises(CommandError, match="no free port found"):
            free_port()


def test_the_page_gets_a_free_port_if_its_usual_one_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        used = server.getsockname()[1]
        monkeypatch.setattr("deviceshare_cli.ports.METRICS_PORT", used)
        assert metrics_port(None) not in (0, used)
        with pytest.raises(CommandError, match=f"port {used} for the metrics is in use"):
            metrics_port(used)


@pytest.mark.skipif(sys.platform != "linux", reason="allowed: only Linux can tell which system is first")
def test_two_systems_that_start_at_once_have_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()  # reserved: no other test gets it
    monkeypatch.setattr("deviceshare_cli.ports.METRICS_PORT", port)
    # No server listens yet when the second one asks.
    assert metrics_port(None) == port
    assert metrics_port(None) != port
