"""An etcd and a kube-apiserver for one measure, on loopback: nothing that runs anywhere is touched."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient

from deviceshare_cli.errors import CommandError

START_SECONDS = 60.0


def find_binaries() -> Path:
    """Return where ``etcd`` and ``kube-apiserver`` are: KUBEBUILDER_ASSETS, else what the tests built here."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    directory = Path(named) if named else Path(".cache/kube")
    if missing := [name for name in ("etcd", "kube-apiserver", "openssl") if not _path(directory, name)]:
        raise CommandError(f"no {' and no '.join(missing)} in {directory}: KUBEBUILDER_ASSETS says where they are")
    return directory


def _path(directory: Path, name: str) -> str | None:
    return shutil.which(name, path=None if name == "openssl" else str(directory))


class Server(NamedTuple):
    """How a running API server is reached by an administrator."""

    url: str
    token: str
    authority: Path
    kubeconfig: Path


@asynccontextmanager
async def api_server() -> AsyncIterator[Server]:
    """Start etcd and an API server, and end them. Raises CommandError where they do not start."""
    binaries = find_binaries()
    directory = Path(tempfile.mkdtemp(prefix="deviceshare-kube-"))
    etcd, port = f"http://127.0.0.1:{_free_port()}", _free_port()
    server = _prepare(directory, port)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes += [
            _run(binaries, directory, command)
            for command in (_etcd(directory, etcd), _apiserver(directory, etcd, port))
        ]
        await _ready(server, directory, processes)
        yield server
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _run(binaries: Path, directory: Path, command: list[str]) -> subprocess.Popen[bytes]:
    name, *options = command
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen([str(binaries / name), *options], stdout=log, stderr=log)


def _prepare(directory: Path, port: int) -> Server:
    """Write what the API server needs: a key for tokens, and who may do everything."""
    key, token = directory / "sa.key", secrets.token_hex(16)
    command = ("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    subprocess.run(command, check=True, capture_output=True)
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    url, authority = f"https://127.0.0.1:{port}", directory / "certs" / "apiserver.crt"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "admin"}}],
        "current-context": "bench",
    }
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return Server(url, token, authority, kubeconfig)


def _etcd(directory: Path, url: str) -> list[str]:
    peers = f"http://127.0.0.1:{_free_port()}"
    return [
        *("etcd", "--name=bench", f"--data-dir={directory / 'etcd'}", "--unsafe-no-fsync"),
        *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        f"--initial-cluster=bench={peers}",
    ]


def _apiserver(directory: Path, etcd: str, port: int) -> list[str]:
    key = directory / "sa.key"
    return [
        *("kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
        *("--endpoint-reconciler-type=none", f"--secure-port={port}", f"--cert-dir={directory / 'certs'}"),
        "--service-account-issuer=https://kubernetes.default.svc",
        *(f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}"),
        *("--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC"),
        *(f"--token-auth-file={directory / 'tokens.csv'}", "--disable-admission-plugins=ServiceAccount"),
    ]


async def _ready(server: Server, directory: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if any(process.poll() is not None for process in processes):
            raise CommandError(f"the API server or its etcd has ended: {_said(directory)}")
        api = KubeClient(str(server.kubeconfig))
        try:
            await api.start()  # fails while the server has not written its certificate
            await api.request("GET", "/readyz")
        except (ClusterError, ApiRefusal):
            await asyncio.sleep(0.1)
        else:
            return
        finally:
            with contextlib.suppress(AttributeError):
                await api.stop()
    raise CommandError(f"the API server was not ready after {START_SECONDS:g} s: {_said(directory)}")


def _said(directory: Path) -> str:
    return "".join(path.read_text()[-500:] for path in directory.glob("*.log"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
