"""The settings of Go's runtime for nats-server: fewer threads on few cores, and what the user has set stays."""

from pathlib import Path

import pytest
from deviceshare_cli import natsserver


@pytest.mark.parametrize(("cores", "threads"), [(1, "1"), (2, "1"), (4, "1"), (7, "1"), (8, None), (64, None)])
def test_a_server_gets_one_thread_where_cores_are_few(cores: int, threads: str | None) -> None:
    settings = natsserver.runtime_settings(cores, {})
    assert settings.get("GOMAXPROCS") == threads
    assert (settings["GOGC"], settings["GOMEMLIMIT"]) == ("400", "2GiB")


def test_the_environment_of_the_user_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMAXPROCS", "3")
    monkeypatch.setenv("GOGC", "50")
    monkeypatch.delenv("GOMEMLIMIT", raising=False)
    server = natsserver.prepare("bus", tmp_path)
    assert server.program.environment == {"GOMEMLIMIT": "2GiB"}
    assert "sync_interval: always" in (tmp_path / "bus" / "nats-server.conf").read_text()


def test_only_the_objects_of_a_simulated_cluster_are_acknowledged_before_they_are_on_disk(tmp_path: Path) -> None:
    natsserver.prepare("cluster", tmp_path, synced=False)
    assert "sync_interval" not in (tmp_path / "cluster" / "nats-server.conf").read_text()
