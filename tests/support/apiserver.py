"""A real kube-apiserver with its etcd, on loopback, with its own state, and requests to it."""

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from deviceshare_lab.bench.kube.apiserver import ApiServer as Server
from deviceshare_lab.bench.kube.apiserver import find_program

CACHE = Path(__file__).parents[2] / ".cache" / "kube"
BUILD = Path(__file__).parents[1] / "apiserver" / "build.sh"


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


def program(name: str) -> Path:
    """Return kube-controller-manager or kube-scheduler; skips the test where it is not there."""
    if (found := find_program(name)) is None:
        pytest.skip(f"there is no {name} (make kube)")
    return found


class ApiServer(Server):
    """One that can forget what was, and takes requests."""

    def restart_apiserver(self, pause: float = 0.0) -> None:
        """Kill and restart the API server, which ends all watches; etcd keeps the objects."""
        self._end("kube-apiserver")
        time.sleep(pause)
        self._run_apiserver()

    def compact(self) -> None:
        """Compact etcd: after a restart of the API server, watches from an older revision get 410."""
        status = self._etcd_call("maintenance/status", {})
        self._etcd_call("kv/compaction", {"revision": status["header"]["revision"], "physical": True})

    def _etcd_call(self, what: str, body: Any) -> Any:
        request = urllib.request.Request(f"{self.etcd}/v3/{what}", method="POST", data=json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def request(
        self, method: str, path: str, body: Any = None, content: str = "application/json", user: str = ""
    ) -> Any:
        """Send a request as ``admin``, or as another user who may do everything, and return the decoded answer."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        with urllib.request.urlopen(request, context=self.tls(), timeout=30) as answer:
            return json.load(answer)
