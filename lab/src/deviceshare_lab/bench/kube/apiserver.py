"""A kube-apiserver with its own etcd on the loopback address, without kubelets and controllers.

The tests use the same API server.
"""

import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from deviceshare_cli.errors import CommandError
from deviceshare_cli.ports import LOOPBACK, free_port

START_SECONDS = 60.0


def find_binaries() -> Path:
    """Return the directory of ``etcd`` and ``kube-apiserver``: KUBEBUILDER_ASSETS, else the one that the tests build.

    Raises CommandError if a binary is missing.
    """
    named = os.environ.get("KUBEBUILDER_ASSETS")
    directory = Path(named) if named else Path(".cache/kube")
    missing = [name for name in ("etcd", "kube-apiserver") if shutil.which(name, path=str(directory)) is None]
    if missing:
        raise CommandError(f"no {' and no '.join(missing)} in {directory}: set KUBEBUILDER_ASSETS to their directory")
    if shutil.which("openssl") is None:
        raise CommandError("openssl is not installed: it generates the signing key of kube-apiserver")
    return directory


def find_program(name: str) -> Path | None:
    """Return a program, from KUBEBUILDER_ASSETS, ``make kube``, ``make node`` or PATH; None: none is there."""
    directories = (os.environ.get("KUBEBUILDER_ASSETS", ""), ".cache/kube", ".cache/node", os.environ.get("PATH", ""))
    found = shutil.which(name, path=os.pathsep.join(filter(None, directories)))
    return None if found is None else Path(found).absolute()


class ApiServer:
    """One etcd and one kube-apiserver with additional ``options``. The user ``admin`` has all permissions.

    With an ``address`` other than loopback, controllers and pods are expected: the Service ``kubernetes`` leads to it,
    and pods need a service account.
    """

    def __init__(self, assets: Path, directory: Path, *options: str, address: str = LOOPBACK) -> None:
        self._options = options
        self._assets = assets
        self._address = address
        self.directory = directory
        self.url = f"https://{address}:{free_port()}"
        self.etcd = f"http://127.0.0.1:{free_port()}"
        self.token = secrets.token_hex(16)
        """The token of ``admin``."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def start(self) -> None:
        """Start both and wait until the API server is ready. Raises TimeoutError, OSError, CalledProcessError."""
        keys = self.directory / "keys"
        keys.mkdir(parents=True)
        key, public = str(keys / "sa.key"), str(keys / "sa.pub")
        for command in (
            ("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key),
            ("openssl", "ec", "-in", key, "-pubout", "-out", public),
        ):
            subprocess.run(command, check=True, capture_output=True)
        (self.directory / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        peer = f"http://127.0.0.1:{free_port()}"
        self._run(
            "etcd",
            "--name=etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self.etcd}",
            f"--advertise-client-urls={self.etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=etcd={peer}",
        )
        self._wait(f"{self.etcd}/health")
        self._run_apiserver()

    def _run_apiserver(self) -> None:
        keys = self.directory / "keys"
        alone = ("--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount")
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self.etcd}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--cert-dir={self.directory / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            f"--service-account-key-file={keys / 'sa.pub'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            *(alone if self._address == LOOPBACK else ()),
            *self._options,
        )
        self._wait(f"{self.url}/readyz")

    def run_claim_controller(self, program: Path) -> None:
        """Start kube-controller-manager, which makes, frees and deletes ResourceClaims.

        It runs until :meth:`end_claim_controller` or :meth:`stop`.
        """
        names = "resourceclaim-controller,garbage-collector-controller"
        self._run(program.name, *client_options(self), f"--controllers={names}", program=program)

    def run_scheduler(self, program: Path) -> None:
        """Start kube-scheduler, likewise."""
        self._run(program.name, *client_options(self), program=program)

    def end_claim_controller(self) -> None:
        """Kill kube-controller-manager."""
        self._end("kube-controller-manager")

    def stop(self) -> None:
        """Stop all and delete the state."""
        for name in reversed(tuple(self._processes)):
            self._end(name)
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def kubeconfig(self, user: str = "admin", token: str | None = None) -> Path:
        """Write and return a kubeconfig for a user, with ``token`` or the token of ``admin``."""
        cluster = {"server": self.url, "certificate-authority": str(self._authority)}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "loopback", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token or self.token}}],
            "contexts": [{"name": "loopback", "context": {"cluster": "loopback", "user": user}}],
            "current-context": "loopback",
        }
        path = self.directory / f"{user}.kubeconfig"
        path.write_text(json.dumps(text))
        return path

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context that trusts the server."""
        return ssl.create_default_context(cafile=str(self._authority))

    @property
    def _authority(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    def _run(self, name: str, *arguments: str, program: Path | None = None) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            command = [str(program or self._assets / name), *arguments]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def _wait(self, url: str) -> None:
        until = time.monotonic() + START_SECONDS
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310 - ours
        while time.monotonic() < until and all(process.poll() is None for process in self._processes.values()):
            try:
                tls = self.tls() if url.startswith("https") else None
                with urllib.request.urlopen(request, context=tls, timeout=5):  # noqa: S310
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)
        logs = "".join(path.read_text()[-500:] for path in self.directory.glob("*.log"))
        raise TimeoutError(f"{url} has ended, or was not ready after {START_SECONDS:g} s: {logs}")


def client_options(server: ApiServer) -> tuple[str, ...]:
    """Return options of clients: by default kube-scheduler sends 50 requests a second, kube-controller-manager 20."""
    limits = ("--kube-api-qps=5000", "--kube-api-burst=5000")
    return (f"--kubeconfig={server.kubeconfig()}", "--leader-elect=false", "--secure-port=0", *limits)
