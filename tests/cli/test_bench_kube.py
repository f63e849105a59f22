"""`deviceshare lab bench kube`: a run on a real API server, with consistent measurements."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deviceshare_lab.bench.kube.apiserver import find_program
from support import apiserver

pytestmark = pytest.mark.system


def test_the_system_and_the_bare_client_bind_all_pods(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "deviceshare"),
        "lab",
        "bench",
        "kube",
        "--nodes",
        "10",
        "--pods",
        "40",
        "--json",
    ]
    environment = {
        **os.environ,
        "KUBEBUILDER_ASSETS": str(apiserver.binaries()),
        "DEVICESHARE_RUN_DIR": str(tmp_path),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["nodes"], shown["pods"]) == (10, 40)
    for pair in (shown, shown["without_plugins"]):
        assert pair["bindings_per_second"] == pytest.approx(40 / pair["seconds"], rel=0.05)
        assert pair["bare_bindings_per_second"] == pytest.approx(40 / pair["bare_seconds"], rel=0.05)
        assert pair["ratio"] == pytest.approx(pair["bindings_per_second"] / pair["bare_bindings_per_second"], rel=0.05)
        assert {"binder", "kube-apiserver", "etcd", "bench"} <= pair["cpu_milliseconds_per_pod"].keys()
    other = shown["kube_scheduler"]
    if find_program("kube-scheduler") is None:
        assert other is None
    else:
        assert other["bindings_per_second"] == pytest.approx(40 / other["seconds"], rel=0.05)
        assert other["cpu_milliseconds_per_pod"].keys() == {"etcd", "kube-apiserver", "kube-scheduler"}


def test_the_error_without_an_api_server_names_its_directory(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "deviceshare"), "lab", "bench", "kube"]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"no etcd and no kube-apiserver in {tmp_path}" in done.stderr
