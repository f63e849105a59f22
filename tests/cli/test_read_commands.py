"""The commands that read, on a running system and on its snapshot: output, errors and statuses as kubectl's."""

import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from deviceshare_cli.main import app
from support.system import COMMAND, System, running_system

pytestmark = pytest.mark.system
EXAMPLES = Path(__file__).parents[2] / "examples"
POD = str(EXAMPLES / "workloads" / "hami-pod.yaml")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running_system(tmp_path_factory.mktemp("system"), "--cluster", f"local:{EXAMPLES}") as system:
        yield system


READ = [
    ("get", "nodes"),
    ("get", "no", "mig-a100", "-o", "wide"),
    ("get", "devices", "-o", "json"),
    ("get", "pods"),
    ("get", "pods", "-o", "yaml"),
    ("get", "po", "-n", "vnpu", "-o", "name"),
    ("get", "claims", "-o", "json"),
    ("get", "podgroups"),
    ("get", "q", "-o", "yaml"),
    ("get", "vcjob", "-o", "json"),
    ("get", "events", "-o", "name"),
    ("get", "pvc"),
    ("get", "pv", "-o", "json"),
    ("get", "sc", "-o", "name"),
    ("get", "pods", "-l", "app"),
    ("get", "pods", "--sort-by", ".metadata.creationTimestamp"),
    ("get", "pods", "--status", "waiting", "--queue", "default", "--sort-by", ".waiting_since", "-o", "json"),
    ("get", "pods", "--node", "share-1", "--field-selector", "status.phase!=Failed", "-o", "name"),
    ("get", "pods", "absent"),
    ("describe", "pod", "gpu-pod1"),
    ("describe", "nodes"),
    ("describe", "queue", "default"),
    ("describe", "job", "gpu-sharing-job"),
    ("explain", "pod", "gpu-pod1"),
    ("explain", "pod", "mode-unknown", "-o", "wide"),
    ("explain", "pod", "gpu-type-missing", "-o", "json"),
    ("explain", "pod", "absent"),
    ("explain", "pod", "mode-unknown", "--preempt", "-o", "yaml"),
    ("explain", "node", "share-1"),
    ("explain", "device", "share-1/0", "-o", "json"),
    ("explain", "queue", "training"),
    ("explain", "job", "gpu-sharing-job", "-o", "json"),
    ("fit", "-f", POD, "--count", "3"),
    ("fit", "-f", POD, "--count", "100"),
    ("top",),
    ("top", "-o", "json"),
    ("top", "owners", "--model", "a100"),
]


@pytest.mark.parametrize("arguments", READ, ids=" ".join)
def test_a_snapshot_gives_the_answers_of_the_system(system: System, arguments: tuple[str, ...]) -> None:
    def answer(*more: str) -> tuple[int, str, str]:
        done = system.command(*arguments, *more)
        # Ages and card-hours, the width of their columns, the time of the decision, and random uids differ. A reason
        # says from some seconds on how old it is: in one of the two answers perhaps not yet.
        ages = (
            r" ?\(as of [^)]* ago\)|\n *the numbers of nodes and cards are those of this decision.*|\b(\d+[smhd])+\b *"
        )
        # A snapshot has followed no pod. The service does not follow one that is decided while eight other kinds of its
        # namespace wait, as those of Jobs do until all of their pods are made: whether they still wait depends on time.
        starts = (
            "too few equal pods have waited and started in its queue|too many kinds of pods wait in its namespace"
            "|a snapshot does not say how pods started before"
        )
        varying = rf"{ages}|{starts}| +\d+\.\d(?=\n|$)|Decided in [\d.]+ ms|\"decision_seconds\": .*"
        return done.returncode, re.sub(r" {2,}", "  ", re.sub(varying, "", done.stdout)), done.stderr

    live = answer()
    assert live[1] or live[0] == 1
    assert answer("--snapshot", system.snapshot) == live


def test_every_read_command_takes_a_snapshot() -> None:
    commands = typer.main.get_command(app).commands
    taking = {name for name, each in commands.items() if any("--snapshot" in one.opts for one in each.params)}
    assert taking == {arguments[0] for arguments in READ}


def test_errors_are_those_of_kubectl(system: System) -> None:
    for arguments, error in (
        (("get", "pod", "absent"), 'Error from server (NotFound): pods "absent" not found\n'),
        (("get", "q", "absent"), 'Error from server (NotFound): queues.scheduling.volcano.sh "absent" not found\n'),
        (("describe", "node", "absent"), 'Error from server (NotFound): nodes "absent" not found\n'),
        (
            ("explain", "queue", "absent"),
            'Error from server (NotFound): queues.scheduling.volcano.sh "absent" not found\n',
        ),
        (("explain", "pod", "absent"), 'Error from server (NotFound): pods "absent" not found\n'),
        (("delete", "pod", "absent"), 'Error from server (NotFound): pods "absent" not found\n'),
        (
            ("get", "pods", "gpu-pod1", "-A"),
            "deviceshare: a resource cannot be retrieved by name across all namespaces\n",
        ),
        (("get", "pods", "gpu-pod1", "-l", "a"), "deviceshare: name cannot be provided when a selector is specified\n"),
        (("get", "pods", "-l", "a=b=c"), "deviceshare: --selector 'a=b=c' is not valid: "),
        (("get", "pods", "--sort-by", ".x"), 'deviceshare: couldn\'t find any field with path ".x" in the list of obj'),
        (("get", "planets"), 'deviceshare: the server doesn\'t have a resource type "planets"'),
        (
            ("get", "pods", "--snapshot", "/nowhere"),
            "deviceshare: --snapshot /nowhere: not a snapshot of deviceshare: ",
        ),
        (("get", "pods", "-w", "--snapshot", system.snapshot), "deviceshare: --watch needs a running system"),
    ):
        done = system.command(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert done.stderr.startswith(error), arguments
    assert system.command("get", "pods", "-n", "none").stderr == "No resources found in none namespace.\n"


def test_an_explanation_names_a_service_that_does_not_answer(system: System) -> None:
    run = json.loads((system.directory / "run" / "run.json").read_text())
    stopped = system.directory / "stopped.json"
    stopped.write_text(json.dumps(run | {"metrics": "http://127.0.0.1:1"}))
    done = system.command("explain", "pod", "gpu-pod1", "--run", str(stopped))
    assert done.returncode == 1
    assert done.stderr.startswith("deviceshare: the metrics service at http://127.0.0.1:1 does not answer")


def test_an_object_to_explain_is_named_in_both_forms(system: System) -> None:
    assert system.out("explain", "pod/gpu-pod1") == system.out("explain", "pod", "gpu-pod1")
    assert system.out("explain", "device/share-1/0") == system.out("explain", "device", "share-1/0")
    for arguments in (["pod"], ["pod", "a", "b"], ["pod/a", "b"]):
        assert system.command("explain", *arguments).returncode == 2


def test_what_pods_hold_adds_up_to_what_is_used_of_the_cards(system: System) -> None:
    used: Counter[str] = Counter()
    for device in json.loads(system.out("get", "devices", "-o", "json"))["items"]:
        used[device["type"] or "unknown"] += device["memory_used"]
    held: Counter[str] = Counter()
    for each in json.loads(system.out("top", "pods", "-o", "json"))["pods"]:
        held[each["model"]] += each["memory"]
    assert +held == +used
    assert len(+held) > 5


def test_describe_shows_devices_and_events(system: System) -> None:
    text = system.out("describe", "pod", "gpu-pod1")
    assert re.search(r"^Devices: +0 \(1024 MiB\)$", text, re.MULTILINE)
    assert re.search(r"^  Normal +Scheduled .* Successfully assigned default/gpu-pod1 to share-1$", text, re.MULTILINE)
    assert re.search(
        r"^Reason: +0/31 nodes are unavailable", system.out("describe", "po", "gpu-type-missing"), re.MULTILINE
    )
    assert "Min Available:" in system.out("describe", "job", "gpu-sharing-job")


def test_explanations_of_other_objects(system: System) -> None:
    node = system.out("explain", "node", "share-1")
    assert node.startswith("Node share-1\n  Ready\n")
    assert "default     gpu-pod1" in node
    device = system.out("explain", "device", "share-1/0")
    assert re.search(r"default +gpu-pod1 +cuda-container +Bound +0 +1024Mi", device)
    several = system.command("explain", "device", "0")
    assert several.stderr.startswith("deviceshare: several nodes have a device 0: name one of them as NODE/ID")
    assert "volcano.sh/gpu-memory" in system.out("explain", "queue", "training")
    job = system.out("explain", "job", "gpu-sharing-job")
    assert "2 of 2 pods are placed; at least 2 are placed together" in job
    (group,) = (row[1] for row in system.lines("get", "pg") if row[1].startswith("gpu-sharing-job-"))
    assert f"PodGroup default/{group}" in system.out("explain", "podgroup", group)
    assert "Bound on npu-310p" in system.out("explain", "po", "mindx-dls-default-test-0", "-n", "vnpu")


def test_what_fits_is_what_is_placed(system: System) -> None:
    pod = Path(POD).read_text().replace("name: hami-pod", "name: predicted")
    (system.directory / "predicted.yaml").write_text(pod)
    predicted = json.loads(system.out("fit", "-f", str(system.directory / "predicted.yaml"), "-o", "json"))
    assert predicted["fits"]
    assert system.command("apply", "-f", str(system.directory / "predicted.yaml")).returncode == 0
    until = time.monotonic() + 60
    while (found := json.loads(system.out("get", "pods", "-o", "json"))["items"]) and time.monotonic() < until:
        placed = [one for one in found if one["name"] == "predicted" and one["state"] == "Bound"]
        if placed:
            break
    assert (placed[0]["node"], placed[0]["devices"]) == (
        predicted["placed"][0]["node"],
        predicted["placed"][0]["devices"],
    )
    again = json.loads(system.out("fit", "-f", str(system.directory / "predicted.yaml"), "-o", "json"))
    assert again["more"] == predicted["more"] - 1
    assert system.command("delete", "pod", "predicted").returncode == 0
    large = system.command("fit", "-f", "-", stdin=pod.replace("3000", "50000"))
    assert large.returncode == 1
    assert "Does not fit now" in large.stdout
    assert "asked 50000 MiB, the largest card that the pod may use has 40960 MiB" in large.stdout


def test_a_command_names_its_target_if_several_systems_run(system: System) -> None:
    run = json.loads((system.directory / "run" / "run.json").read_text())
    other = system.directory / "run" / f"run-{os.getpid()}.json"
    other.write_text(json.dumps(run | {"pid": os.getpid(), "target": "local:elsewhere", "started_in": "/elsewhere"}))
    try:
        done = system.command("get", "nodes")
        assert done.returncode == 0
        assert (
            f"using process {run['pid']} (local:{EXAMPLES}), the latest one of this directory; --run PID" in done.stderr
        )
        refused = system.command("delete", "pod", "absent")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("deviceshare: 2 systems are running: select one by --run PID: process ")
        chosen = system.command("get", "nodes", "--run", str(run["pid"]))
        assert (chosen.returncode, chosen.stderr) == (0, "")
    finally:
        other.unlink()


@pytest.mark.parametrize("arguments", [("get", "pods"), ("explain", "pod", "hami-pod"), ("top",)])
def test_a_command_that_reads_imports_nothing_that_takes_long(system: System, arguments: tuple[str, ...]) -> None:
    environment = system.environment | {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    imported = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "deviceshare_cli.main" in imported, done.stderr
    slow = {"numpy", "aiohttp.client", "deviceshare.families", "deviceshare_localcluster.admission"}
    assert imported.isdisjoint(slow)
