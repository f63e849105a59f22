"""`deviceshare lab bench kube`: a run on a real API server, with consistent measurements."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import msgspec
import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cluster.interface import Change, ChangeType, Listed
from deviceshare_lab.bench.kube import measure, watched
from deviceshare_lab.bench.kube.apiserver import find_program
from deviceshare_lab.bench.kube.client import Client
from support import apiserver

pytestmark = pytest.mark.system


def bench(directory: Path, *options: str) -> dict[str, Any]:
    """Return what a run with 10 nodes and 40 pods measures."""
    program = str(Path(sys.executable).parent / "deviceshare")
    command = [program, "lab", "bench", "kube", "--nodes", "10", "--pods", "40", "--json", *options]
    assets = {"KUBEBUILDER_ASSETS": str(apiserver.binaries()), "DEVICESHARE_RUN_DIR": str(directory)}
    done = subprocess.run(command, env={**os.environ, **assets}, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_the_system_and_the_bare_client_bind_all_pods(tmp_path: Path) -> None:
    shown = bench(tmp_path)
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


class OnePod(AsyncExitStack):
    """A cluster where ``served-1`` was bound shortly after the watch began."""

    async def watch(self, *_: object, **__: object) -> AsyncIterator[list[Change | Listed]]:
        yield [Listed(1)]
        await asyncio.sleep(0)
        metadata = {"name": "served-1", "resourceVersion": "2", "annotations": {"volcano.sh/gpu-index": "0"}}
        pod = msgspec.json.encode({"metadata": metadata, "spec": {"nodeName": "n1"}})
        yield [Change(ChangeType.APPLIED, "Pod", "default", "served-1", 2, pod)]
        await asyncio.Event().wait()


async def test_the_watch_ends_when_the_plugins_have_served_the_last_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "KubeCluster", lambda **_: OnePod())
    plugins = create_autospec(Client, instance=True)
    async with watched.Watched(["served-1"], plugins).watching():
        assert plugins.request.call_count == 0
    assert [call.args[1] for call in plugins.request.mock_calls] == ["/api/v1/namespaces/default/pods/served-1"]


async def test_a_plugin_that_is_refused_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "KubeCluster", lambda **_: OnePod())
    plugins = create_autospec(Client, instance=True)
    plugins.request.side_effect = CommandError("PATCH served-1: 409 the object has been modified")
    watch = watched.Watched(["served-1", "served-2"], plugins)
    with pytest.raises(CommandError, match=r"^PATCH served-1: 409 the object has been modified$"):
        async with watch.watching():
            await watch.until(2)


def test_both_schedulers_bind_all_pods_with_claims(tmp_path: Path) -> None:
    for name in ("kube-controller-manager", "kube-scheduler"):
        apiserver.program(name)
    shown = bench(tmp_path, "--claims")
    assert (shown["pods"], shown["devices"]) == (40, 80)
    other = shown["kube_scheduler"]
    for each in (shown, other):
        assert each["bindings_per_second"] == pytest.approx(40 / each["seconds"], rel=0.05)
        assert {"kube-apiserver", "kube-controller-manager"} <= each["cpu_milliseconds_per_pod"].keys()
    assert shown["ratio"] == pytest.approx(shown["bindings_per_second"] / other["bindings_per_second"], rel=0.05)


def test_the_error_without_an_api_server_names_its_directory(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "deviceshare"), "lab", "bench", "kube"]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"no etcd and no kube-apiserver in {tmp_path}" in done.stderr


@pytest.mark.parametrize("before", [None, "/home/me/config"])
async def test_the_kubeconfig_of_the_user_is_that_of_the_process_again(
    before: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = SimpleNamespace(start=lambda: None, stop=lambda: None, kubeconfig=lambda: tmp_path / "config")
    monkeypatch.setattr(measure, "find_binaries", lambda: None)
    monkeypatch.setattr(measure, "ApiServer", lambda *_: server)
    if before is None:
        monkeypatch.delenv("KUBECONFIG", raising=False)
    else:
        monkeypatch.setenv("KUBECONFIG", before)
    async with measure.api_server():
        assert os.environ["KUBECONFIG"] == str(tmp_path / "config")
    assert os.environ.get("KUBECONFIG") == before
