"""A whole system, started by ``deviceshare up``."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from deviceshare_cluster.interface import Cluster, ClusterError
from deviceshare_localcluster import LocalCluster

COMMAND = Path(sys.executable).parent / "deviceshare"


class Running:
    """``deviceshare up`` with some options, its messages and processes."""

    _process: "subprocess.Popen[bytes]"

    def __init__(self, directory: Path, **environment: str) -> None:
        self._directory = directory
        self._log = directory / "up.log"
        self.environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(directory / "run"), **environment}

    def _start(self, *options: str) -> None:
        command = [str(COMMAND), "up", "--metrics-port", "0", *options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def _end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    async def _run_file(self) -> dict[str, Any]:
        path = self._directory / "run" / "run.json"
        until = time.monotonic() + 60
        while not path.exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            await asyncio.sleep(0.05)
        run: dict[str, Any] = json.loads(path.read_text())
        return run

    @property
    def has_ended(self) -> bool:
        """Whether ``up`` itself has ended."""
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        """The output of ``up``."""
        return self._log.read_text()

    async def logs(self) -> Path:
        """Return the directory with a log of each process."""
        return Path((await self._run_file())["directory"])

    async def logged(self, pattern: str, count: int = 1, *, within: float = 120.0) -> list[str]:
        """Wait until the log has this many matches of a pattern; return the matches, or their groups."""
        until = time.monotonic() + within
        while len(found := re.findall(pattern, self.log)) < count:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < until, self.log
            await asyncio.sleep(0.05)
        return found

    async def bound(self, cluster: Cluster, count: int, *, within: float) -> None:
        """Wait until this many pods are bound; the cluster may be unreachable meanwhile."""
        until = time.monotonic() + within
        bound = 0
        while time.monotonic() < until:
            try:
                bound = sum(1 for pod in await cluster.list("Pod") if pod["spec"].get("nodeName"))
            except ClusterError:
                bound = 0
            if bound >= count:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{bound} of {count} pods are bound after {within} s\n{self.log}")

    def process(self, name: str) -> int:
        """Return the process id of a service or of a replica, or of the nats-server ``bus`` or ``cluster``."""
        (process,) = self._processes(name) or [0]
        assert process, (name, self.log)
        return process

    async def restarted(self, name: str, killed: int, *, within: float = 120.0) -> None:
        """Wait until another process than the killed one runs under a name of :meth:`process`."""
        until = time.monotonic() + within
        while self._processes(name) in ([], [killed]):
            assert time.monotonic() < until, (name, self.log)
            await asyncio.sleep(0.05)

    def _processes(self, name: str) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words = (path / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if parent != self._process.pid:
                continue
            replica = "--instance" in words and words[words.index("--instance") + 1] == name
            if (
                replica
                or f"deviceshare_{name}" in words
                or any(word.endswith(f"/{name}/nats-server.conf") for word in words)
            ):
                found.append(int(path.name))
        return found


def http_get(run: dict[str, Any], path: str, accept: str = "", url: str = "") -> bytes:
    """Return what an HTTP port of a running system answers, to its user; by default that of the metrics service."""
    headers = {"Authorization": f"Bearer {run['token']}", "Accept": accept}
    with urllib.request.urlopen(
        urllib.request.Request((url or run["metrics"]) + path, headers=headers), timeout=60
    ) as opened:
        answer: bytes = opened.read()
        return answer


class RunningSystem(Running):
    """``deviceshare up`` on a directory of manifests (default: an empty one); its local cluster is ``cluster``."""

    cluster: LocalCluster
    run: dict[str, Any]
    """What ``up`` wrote about itself."""

    def __init__(self, directory: Path, manifests: Path | None = None, *options: str, **environment: str) -> None:
        super().__init__(directory, **environment)
        self._manifests = manifests
        self._options = options

    async def __aenter__(self) -> Self:
        manifests = self._manifests
        if manifests is None:
            manifests = self._directory / "objects"
            manifests.mkdir()
        self._start("--cluster", f"local:{manifests}", *self._options)
        try:
            self.run = await self._run_file()
            self.cluster = await LocalCluster(self.run["cluster"], name="test").__aenter__()
            await self.cluster.setup()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.cluster.__aexit__(*error)
        self._end()


class RunningOnKube(Running):
    """``deviceshare up`` on the live cluster that a kubeconfig names."""

    def __init__(self, directory: Path, kubeconfig: Path, *options: str) -> None:
        super().__init__(directory, KUBECONFIG=str(kubeconfig))
        self._options = options

    async def __aenter__(self) -> Self:
        self._start("--cluster", "kube", *self._options)
        try:
            await self._run_file()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._end()
