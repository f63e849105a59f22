"""`deviceshare simulate cluster` says what the running system does, and changes nothing."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deviceshare_localcluster import read_manifests
from support.up_commands import EXAMPLES, UpSystem, running_up
from support.up_manifests import gang

pytestmark = pytest.mark.system
CONF = str(EXAMPLES / "volcano-scheduler.conf")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, uid: NAME}
spec:
  schedulerName: volcano
  containers:
  - name: main
    image: busybox
    resources: {limits: {volcano.sh/vgpu-number: 2, volcano.sh/vgpu-memory: MEMORY}}
"""
PODS = "---".join(
    POD.replace("NAME", name).replace("MEMORY", size) for name, size in (("asked", "9000"), ("large", "99999"))
)
GANG = gang(20000)


class System(UpSystem):
    """A running `up` on the manifests of the examples."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.manifests = directory / "manifests"

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.out(*arguments, stdin=stdin))

    def decisions(self, *arguments: str, stdin: str = "") -> dict[str, tuple[Any, ...]]:
        (run,) = self.json("simulate", "cluster", *arguments, "--json", stdin=stdin)["runs"]
        return {each["name"]: (each["node"], each["devices"], each["reason"]) for each in run["decisions"]}

    def pods(self) -> dict[str, tuple[Any, ...]]:
        found = self.json("get", "pods", "-o", "json")["items"]
        return {each["name"]: (each["node"], each["devices"], each["reason"]) for each in found}


def with_uids(directory: Path) -> None:
    """Write the examples with uids and one creation timestamp: equal jobs are ordered by both."""
    directory.mkdir()
    objects = []
    for number, manifest in enumerate(read_manifests(EXAMPLES).manifests):
        obj = manifest.object
        if obj.get("kind") in ("Pod", "PodGroup"):
            obj["metadata"].setdefault("uid", f"uid-{number:04}")
            obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        objects.append(obj)
    (directory / "all.json").write_text(json.dumps(objects))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    system = System(tmp_path_factory.mktemp("system"))
    with_uids(system.manifests)
    with running_up(system, "--cluster", f"local:{system.manifests}", "--conf", CONF):
        yield system


def test_every_pod_of_a_directory_gets_what_the_system_gives_it(system: System) -> None:
    simulated = system.decisions(f"local:{system.manifests}", "--conf", CONF)
    found = system.pods()
    assert len(simulated) > 80
    assert {name: found[name] for name in simulated} == simulated
    assert sum(node is None for node, _, _ in simulated.values()) > 10
    # The rest have a node in their manifest, or ended before.
    assert all(node for name, (node, _, _) in found.items() if name not in simulated)


@pytest.mark.parametrize(("manifests", "names"), [(GANG, "gang-worker-"), (PODS, "")], ids=["gang", "pods"])
def test_pods_in_a_running_system_get_what_they_get_when_they_are_created(
    system: System, manifests: str, names: str
) -> None:
    before = system.pods()
    snapshot = system.directory / "snapshot.json"
    snapshot.write_text(system.command("snapshot").stdout)
    simulated = system.decisions("--pods", "-", stdin=manifests)
    assert set(simulated) == ({f"{names}{at}" for at in range(3)} if names else {"asked", "large"})
    assert system.decisions("--snapshot", str(snapshot), "--pods", "-", stdin=manifests) == simulated
    assert system.pods() == before, "a simulation changes nothing"
    assert system.command("apply", "-f", "-", stdin=manifests).returncode == 0
    until = time.monotonic() + 60
    found = before
    while not all(name in found and any(found[name]) for name in simulated):
        assert time.monotonic() < until
        time.sleep(0.1)
        found = system.pods()
    assert {name: found[name] for name in simulated} == simulated
    assert [name for name, (node, _, _) in simulated.items() if not node] == ([] if names else ["large"])


def test_pods_that_exist_keep_their_names(system: System) -> None:
    (run,) = system.json("simulate", "cluster", "--pods", "-", "--json", stdin=PODS)["runs"]
    taken = "asked" in system.pods()
    assert {each["name"] for each in run["decisions"]} == ({"asked-2", "large-2"} if taken else {"asked", "large"})
    assert run["other_pods"]["waiting"] > 10, "pods that wait in the cluster are not those that are asked about"
