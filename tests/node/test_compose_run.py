"""compose.yaml, run with the images of deploy/Dockerfile by podman: the examples are placed, and nothing is left.

podman before 5.4 mounts no part of a volume. There the parts are directories of the volume, which the service
`credentials` writes before the containers that mount them are created. podman 4.3 takes 20 s to see that a container
has ended, and every service depends on `credentials`: here the test alone waits for it.
"""

import json
import os
import runpy
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import node
from support.node import CACHE, IMAGES, ROOT
from support.waiting import until

PROGRAM = CACHE / "venv" / "bin" / "podman-compose"
SERVICES = ("bus", "cluster", "local-cluster", "setup", "inventory", "placement", "binder", "metrics")
"""Without those of others, whose images are in registries alone."""
PAGE = "http://127.0.0.1:8080"


class Podman:
    """podman with settings and a store of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "networks").mkdir(parents=True)
        # Limits and the score of a process cannot be raised without CAP_SYS_RESOURCE; crun refuses hybrid cgroups.
        (directory / "containers.conf").write_text(f"""[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
oom_score_adj = 0
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
static_dir = "{directory}/libpod"
tmp_dir = "/run/libpod"
volume_path = "{directory}/volumes"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
""")
        (directory / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{directory}/store"\nrunroot = "/run/store"\n'
        )
        (directory / "registries.conf").write_text('unqualified-search-registries = ["docker.io"]\n')
        names = {"CONTAINERS_CONF": "containers", "CONTAINERS_STORAGE_CONF": "storage"}
        names["CONTAINERS_REGISTRIES_CONF"] = "registries"
        files = {name: str(directory / f"{file}.conf") for name, file in names.items()}
        self._environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"} | files
        self._file = directory / "compose.json"
        self._file.write_text(json.dumps(self._composed()))

    def run(self, *arguments: str) -> str:
        """Run podman and return its output. Raises AssertionError with what it said."""
        return self._said("podman", *arguments)

    def compose(self, *arguments: str) -> str:
        """Run podman-compose, as :meth:`run` does."""
        return self._said(str(PROGRAM), "--file", str(self._file), "--project-name", "deviceshare", *arguments)

    def log(self, service: str) -> str:
        """Return the last lines of a container, also of one that is not there."""
        command = ("podman", "logs", "--tail", "20", f"deviceshare_{service}_1")
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True)
        return f"== {service}\n{done.stdout}{done.stderr}"

    def _said(self, *command: str) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def _composed(self) -> dict[str, Any]:
        """Return compose.yaml with directories in place of parts of volumes, and with paths that hold anywhere."""
        file: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text().replace("./", f"{ROOT}/"))
        for service in file["services"].values():
            if isinstance(service.get("depends_on"), dict):
                service["depends_on"].pop("credentials", None)
            for volume in service.get("volumes", ()):
                if isinstance(volume, dict) and "volume" in volume:
                    part = volume.pop("volume")["subpath"]
                    source = self.directory / "volumes" / f"deviceshare_{volume['source']}" / "_data" / part
                    volume |= {"type": "bind", "source": str(source)}
        return file


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Gives podman with the images, in the namespaces of a node but without one."""
    if why := node.missing():
        pytest.skip(f"allowed: no real node: {why}")
    absent = [name for name in ("podman", "netavark", "aardvark-dns", "catatonit") if not found(name)]
    absent += [] if PROGRAM.exists() else ["podman-compose (make node)"]
    if absent:
        pytest.skip(f"allowed: there is no {', no '.join(absent)}")
    program = Podman(tmp_path_factory.mktemp("podman"))
    for image in ("deviceshare-cli", "nats"):
        program.run("load", "--quiet", "--input", str(IMAGES / f"{image}.tar"))
    (tag,) = (tag for tag in program.run("images", "--format", "{{.Repository}}:{{.Tag}}").split() if "cli" in tag)
    program.run("tag", tag, "localhost/deviceshare-cli")
    yield program
    program.run("rm", "--all", "--force")
    program.run("system", "reset", "--force")


def found(name: str) -> bool:
    return any(shutil.which(name, path=path) for path in (None, "/usr/lib/podman", "/usr/libexec/podman"))


def answer(path: str) -> Any:
    with urllib.request.urlopen(f"{PAGE}{path}", timeout=10) as given:
        return given.read().decode()


class Page:
    """What the page of the metrics service says of the pods."""

    def __init__(self) -> None:
        self.placed: set[str] = set()
        self.reasons: dict[str, str] = {}

    def read(self) -> None:
        """Read the states of all pods; nothing is known while the service does not answer."""
        try:
            pods = json.loads(answer("/api/v1/pods"))["items"]
        except OSError:
            return
        self.placed = {f"{pod['namespace']}/{pod['name']}" for pod in pods if pod["state"] == "Bound"}
        self.reasons = {f"{pod['namespace']}/{pod['name']}": pod["reason"] or "" for pod in pods}

    def differences(self, expected: dict[str, Any]) -> list[str]:
        """Return what differs from what the gate expects of examples/."""
        self.read()
        wrong = [f"{name} is not placed: {self.reasons.get(name)}" for name in expected["PLACED"].keys() - self.placed]
        wrong += [f"{name} is placed" for name in self.placed - expected["PLACED"].keys()]
        return wrong + [
            f"{name} waits for {self.reasons.get(name)!r}, not {text!r}"
            for name, text in expected["WAITING"].items()
            if text not in self.reasons.get(name, "")
        ]


@pytest.mark.timeout(900)
async def test_compose_places_the_examples_and_leaves_nothing(podman: Podman) -> None:
    expected = runpy.run_path(str(ROOT / ".ci" / "check_run.py"))
    page = Page()
    try:
        podman.compose("up", "--detach", "credentials")
        assert podman.run("wait", "deviceshare_credentials_1").split() == ["0"]
        podman.compose("up", "--detach", *SERVICES)
        try:
            await until(lambda: page.differences(expected), lambda wrong: not wrong, 300)
        except TimeoutError:
            said = [podman.run("ps", "--all"), *(podman.log(name) for name in SERVICES)]
            pytest.fail("\n".join([*page.differences(expected), *said]))
        assert "<!doctype html>" in answer("/")
    finally:
        podman.compose("down", "--volumes")
    assert podman.run("ps", "--all", "--quiet") == podman.run("volume", "ls", "--quiet") == ""
    assert podman.run("network", "ls", "--format", "{{.Name}}").split() == ["podman"]
