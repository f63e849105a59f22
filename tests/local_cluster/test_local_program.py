"""``python -m deviceshare_localcluster``: a process that loads a cluster and simulates its controllers."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from deviceshare_cluster.interface import ClusterError
from deviceshare_localcluster import LocalCluster
from support.waiting import until

MODULE = "deviceshare_localcluster"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}, "status": {"allocatable": {"cpu": "8"}}}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"queue": "missing-queue", "tasks": [{"name": "w", "replicas": 2, "template": TEMPLATE}]},
}
PODS = {"train-w-0", "train-w-1"}


class Program:
    """The module as a process, with its log."""

    def __init__(self, log: Path, **variables: str) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE], env={**os.environ, **variables}, stdout=file, stderr=file
            )

    def said(self, level: str) -> list[str]:
        """Return its messages of a level; every line has to be JSON."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        assert {line["service"] for line in lines} <= {"local-cluster"}
        return [line["message"] for line in lines if line["level"] == level]

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(10)

    def clean_up(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "node.yaml").write_text(yaml.safe_dump(NODE))
    (directory / "job.yaml").write_text(yaml.safe_dump(JOB))
    (directory / "bad.yaml").write_text("kind: [Pod\n")
    return directory


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(**variables: str) -> Program:
        started.append(Program(tmp_path / f"log-{len(started)}", **variables))
        return started[-1]

    yield start
    for program in started:
        program.clean_up()


async def until_pods(cluster: LocalCluster) -> None:
    """Wait until the pods of the Job are there; the cluster may not be set up yet."""

    async def there() -> bool:
        try:
            return {one["metadata"]["name"] for one in await cluster.list("Pod")} == PODS
        except ClusterError:
            return False

    await until(there)


async def revisions(cluster: LocalCluster) -> dict[str, str]:
    """Return the revision of every object that was loaded or made of what was loaded."""
    objects = [one for kind in ("Node", "Queue", "Job", "PodGroup", "Pod") for one in await cluster.list(kind)]
    return {f"{one['kind']} {one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in objects}


async def test_it_waits_for_the_server_loads_valid_manifests_and_reports_invalid_ones(nats_server, manifests, start):
    nats_server.kill()
    program = start(DEVICESHARE_CLUSTER_URL=nats_server.url, DEVICESHARE_LOAD=str(manifests))
    await until(lambda: program.said("info") == [f"waiting for {nats_server.url}"])
    nats_server.start()
    async with LocalCluster(nats_server.url) as cluster:
        await until_pods(cluster)
        assert await cluster.get("Node", "", "gpu-1")
    reported = [line for line in program.said("warning") if line.startswith(("rejected: ", "warning: "))]
    assert Counter(line.split(":")[0] for line in reported) == {"rejected": 1, "warning": 1}
    assert any(line.startswith("rejected: File bad.yaml: ") for line in reported)
    assert any("Queue missing-queue did not exist" in line for line in reported)
    assert program.end(signal.SIGTERM) == 0


async def test_killed_and_started_again_it_changes_nothing_and_goes_on(nats_server, manifests, start):
    variables = {"DEVICESHARE_CLUSTER_URL": nats_server.url, "DEVICESHARE_LOAD": str(manifests)}
    async with LocalCluster(nats_server.url) as cluster:
        program = start(**variables)
        await until_pods(cluster)
        before = await revisions(cluster)
        program.end(signal.SIGKILL)
        program = start(**variables)
        await until(lambda: f"loaded {manifests}: 2 unchanged" in program.said("info"))
        await cluster.delete("Pod", "default", "train-w-1")
        await until_pods(cluster)
        after = await revisions(cluster)
        assert after.pop("Pod train-w-1") != before.pop("Pod train-w-1")
        assert after == before
        assert [line for line in program.said("warning") if line.startswith("rejected: File bad.yaml: ")]
    assert program.end(signal.SIGTERM) == 0


async def test_it_ends_as_well_while_its_server_is_away(nats_server, start):
    program = start(DEVICESHARE_CLUSTER_URL=nats_server.url)
    async with LocalCluster(nats_server.url) as cluster:

        async def set_up() -> bool:
            try:
                return await cluster.get("Queue", "", "default") is not None
            except ClusterError:
                return False

        await until(set_up)
    nats_server.kill()
    assert program.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--cluster"),
        (("--cluster", "local:nats://h:4222"), "'local:nats://h:4222' is not valid: expected nats://HOST:PORT"),
        (("--cluster", "nats://h:none"), "'nats://h:none' is not valid: expected nats://HOST:PORT"),
        (("--cluster", "nats://h:4222", "--load", "/no/such"), "--load /no/such: it is not a directory"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, said):
    command = [sys.executable, "-m", MODULE, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert said in done.stderr
