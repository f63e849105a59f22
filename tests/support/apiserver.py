"""A real kube-apiserver with its etcd, on loopback, with a state of its own. There is no kubelet and no controller."""

import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "kube"
BUILD = Path(__file__).parents[1] / "apiserver" / "build.sh"
START_SECONDS = 60.0


def binaries() -> Path:
    """Return the directory of ``etcd`` and ``kube-apiserver``: KUBEBUILDER_ASSETS, else built, once, in minutes.

    Skips the test where they cannot be had.
    """
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return Path(assets)
    built = subprocess.run([str(BUILD), str(CACHE)], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"kube-apiserver cannot be built: {' '.join(built.stderr.split()[-40:])}")
    return CACHE


class ApiServer:
    """One etcd and one kube-apiserver, with more options where they are given. Users are tokens; ``admin`` may do
    anything."""

    def __init__(self, assets: Path, directory: Path, *options: str) -> None:
        self._options = options
        self._assets = assets
        self.directory = directory
        self.url = f"https://127.0.0.1:{_free_port()}"
        self._etcd = f"http://127.0.0.1:{_free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._tokens = {"admin": secrets.token_hex(16)}

    def start(self) -> None:
        """Start both and wait until the API server is ready."""
        keys = self.directory / "keys"
        keys.mkdir(parents=True)
        key = keys / "sa.key"
        subprocess.run(
            ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)],
            check=True,
            capture_output=True,
        )
        public = subprocess.run(["openssl", "ec", "-in", str(key), "-pubout"], check=True, capture_output=True).stdout
        (keys / "sa.pub").write_bytes(public)
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f'{self._tokens["admin"]},admin,admin,"system:masters"\n')
        peer = f"http://127.0.0.1:{_free_port()}"
        self._run(
            "etcd",
            "--name=t",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=t={peer}",
        )
        self._wait(f"{self._etcd}/health")
        self._run_apiserver()

    def _run_apiserver(self) -> None:
        keys = self.directory / "keys"
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--cert-dir={self.directory / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            f"--service-account-key-file={keys / 'sa.pub'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--disable-admission-plugins=ServiceAccount",
            *self._options,
        )
        self._wait(f"{self.url}/readyz")

    def stop(self) -> None:
        """End both; the state goes with the directory."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def restart_apiserver(self, pause: float = 0.0) -> None:
        """Kill the API server and start it again: all watches end; etcd keeps what there is."""
        process = self._processes.pop()
        process.kill()
        process.wait()
        time.sleep(pause)
        self._run_apiserver()

    def compact(self) -> None:
        """Forget all that was before: whoever wants to go on from there gets 410, once the API server is new."""
        status = self._etcd_call("maintenance/status", {})
        self._etcd_call("kv/compaction", {"revision": status["header"]["revision"], "physical": True})

    def _etcd_call(self, what: str, body: Any) -> Any:
        request = urllib.request.Request(f"{self._etcd}/v3/{what}", method="POST", data=json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kubeconfig(self, user: str = "admin", token: str | None = None) -> Path:
        """Write and return a kubeconfig for a user: by its own ``token``, else one of ours."""
        cluster = {"server": self.url, "certificate-authority": str(self.directory / "certs" / "apiserver.crt")}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token or self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path = self.directory / f"{user}.kubeconfig"
        path.write_text(json.dumps(text))
        return path

    def request(
        self, method: str, path: str, body: Any = None, content: str = "application/json", user: str = ""
    ) -> Any:
        """Send a request as ``admin``, or as another user who may do everything, and return the decoded answer."""
        headers = {"Authorization": f"Bearer {self._tokens['admin']}", "Content-Type": content}
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        with urllib.request.urlopen(request, context=self._tls(), timeout=30) as answer:
            return json.load(answer)

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.directory / "certs" / "apiserver.crt"))

    def _run(self, name: str, *arguments: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen([str(self._assets / name), *arguments], stdout=log, stderr=subprocess.STDOUT)
            )

    def _wait(self, url: str) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            try:
                headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
                tls = self._tls() if url.startswith("https") else None
                with urllib.request.urlopen(
                    urllib.request.Request(url, headers=headers),
                    context=tls,
                    timeout=5,
                ):
                    return
            except (OSError, urllib.error.URLError, ssl.SSLError):
                time.sleep(0.05)
        raise TimeoutError(f"{url} is not ready: {sorted(self.directory.glob('*.log'))}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
