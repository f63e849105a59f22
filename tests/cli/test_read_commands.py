"""The commands that read, on a running system and on its snapshot: output, errors and statuses as kubectl's."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
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
        # The service has followed other pods, if few, and perhaps this one not: it follows eight kinds of pods of a
        # namespace, those first that were decided first. A snapshot has followed none.
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


def test_names_and_short_names(system: System) -> None:
    for kind in ("pods", "pod", "po"):
        row = system.lines("get", kind, "gpu-pod1")[1]
        assert (row[:3], row[4:6]) == (["default", "gpu-pod1", "Bound"], ["<none>", "share-1"])
    assert system.lines("get", "pod/gpu-pod1", "pod/gpu-pod2", "-o", "name") == [["pod/gpu-pod1"], ["pod/gpu-pod2"]]
    assert system.lines("get", "q", "default", "-o", "name") == [["queue.scheduling.volcano.sh/default"]]
    assert system.lines("get", "queues.scheduling.volcano.sh", "default")[1][:3] == ["default", "1", "Open"]
    assert system.lines("get", "vcjob", "mindx-dls", "-n", "vnpu")[1][:2] == ["vnpu", "mindx-dls"]
    (event,) = (row for row in system.lines("get", "ev", "-n", "default")[1:] if "pod/gpu-pod1" in row)
    assert event[2:5] == ["Normal", "Scheduled", "pod/gpu-pod1"]
    assert system.lines("get", "devices", "share-1/0")[1][:2] == ["share-1", "0"]


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


def test_whole_gpus_are_devices(system: System) -> None:
    (worker,) = system.lines("get", "pod", "distributed-gpu-training-worker-0", "--no-headers")
    assert worker[6:9] == ["2", "×", "nvidia.com/gpu"]
    (node,) = system.lines("get", "node", worker[5], "--no-headers")
    assert int(node[3]) == 4
    devices = [row for row in system.lines("get", "devices", "--no-headers") if row[0] == worker[5]]
    assert (len(devices), devices[0][1:4]) == (4, ["nvidia.com/gpu-0", "whole", "NVIDIA-A100-SXM4-40GB"])
    assert "nvidia.com/gpu-3" in system.out("explain", "node", worker[5])
    assert any(row[:2] == ["NVIDIA-A100-SXM4-40GB", "whole"] for row in system.lines("top"))


def test_several_kinds_are_one_table_each(system: System) -> None:
    # Ages differ, and with them the width of their columns.
    ages = r" \(as of \w+ ago\)|\b\d+[smhd]\b"
    pods, nodes, both = (
        re.sub(r" {2,}", "  ", re.sub(ages, "", system.out("get", what))) for what in ("pods", "nodes", "po,no")
    )
    assert both == f"{pods}\n{nodes}"
    assert system.command("get", "po,no", "-w").stderr.startswith("deviceshare: you may only specify a single resource")
    assert system.command("get", "po,planets").returncode == 1


def test_events_can_be_sorted_by_their_creation(system: System) -> None:
    events = json.loads(system.out("get", "events", "--sort-by", ".metadata.creationTimestamp", "-o", "json"))["items"]
    created = [each["metadata"]["creationTimestamp"] for each in events]
    assert created == sorted(created)
    assert created == [each["firstTimestamp"] for each in events]


def test_a_job_has_a_phase_of_its_own(system: System) -> None:
    (row,) = system.lines("get", "jobs", "gpu-sharing-job", "--no-headers")
    job = json.loads(system.out("get", "jobs", "gpu-sharing-job", "-o", "json"))
    assert row[2] == job["status"]["state"]["phase"] == "Running"


def test_a_watch_of_a_missing_name_ends(system: System) -> None:
    done = system.command("get", "pods", "absent", "-w")
    assert (done.returncode, done.stderr) == (1, 'Error from server (NotFound): pods "absent" not found\n')


def test_a_pod_that_is_not_listed_is_shown_by_its_name(system: System) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: other}\n"
        "spec:\n  SPEC\n  containers: [{name: a, image: b}]\n"
    )
    ended = pod.replace("NAME", "ended").replace("SPEC", "schedulerName: volcano") + "status: {phase: Failed}\n"
    typo = pod.replace("NAME", "typo").replace("SPEC", "priority: 0")
    for each in (ended, typo):
        assert system.command("apply", "-f", "-", stdin=each).returncode == 0
    assert system.out("get", "pod", "ended", "-n", "other", "--no-headers").split()[:3] == ["other", "ended", "Ended"]
    (row,) = system.lines("get", "pod", "typo", "-n", "other", "--no-headers")
    assert row[:3] == ["other", "typo", "OtherScheduler"]
    assert system.command("explain", "pod", "ended", "-n", "other").stderr == (
        "error: pod other/ended: it had ended (Failed) when deviceshare first read it\n"
    )
    assert 'spec.schedulerName is "default-scheduler"' in system.command("explain", "pod", "other/typo").stderr
    assert system.command("delete", "pod", "ended", "typo", "-n", "other").returncode == 0


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


def test_one_of_several_names_does_not_exist(system: System) -> None:
    done = system.command("get", "pods", "gpu-pod1", "absent")
    assert done.returncode == 1
    assert "gpu-pod1" in done.stdout
    assert done.stderr == 'Error from server (NotFound): pods "absent" not found\n'


def test_namespaces_and_selectors(system: System) -> None:
    everywhere = system.lines("get", "pods", "-A")
    # Further columns have ages.
    assert [row[:2] for row in system.lines("get", "pods")] == [row[:2] for row in everywhere]
    assert {row[0] for row in system.lines("get", "pods", "-n", "vnpu", "--no-headers")} == {"vnpu"}
    with_label = system.lines("get", "pods", "-l", "app", "--no-headers")
    without = system.lines("get", "pods", "-l", "!app", "--no-headers")
    assert with_label
    assert len(with_label) + len(without) == len(everywhere) - 1


def test_pods_are_chosen_by_status_queue_node_and_fields(system: System) -> None:
    pods = json.loads(system.out("get", "pods", "-o", "json"))["items"]
    objects = yaml.safe_load(system.out("get", "pods", "-o", "yaml"))["items"]

    def chosen(*options: str) -> set[tuple[str, str]]:
        found = json.loads(system.out("get", "pods", "-o", "json", *options))["items"]
        return {(each["namespace"], each["name"]) for each in found}

    def those(wanted: Callable[[dict[str, Any]], bool]) -> set[tuple[str, str]]:
        found = {(each["namespace"], each["name"]) for each in pods if wanted(each)}
        assert found, "the case chooses nothing"
        return found

    assert chosen("--status", "bound") == those(lambda pod: pod["state"] == "Bound")
    assert chosen("--status", "waiting") == those(lambda pod: pod["waiting_since"] is not None)
    assert chosen("--status", "refused") == those(lambda pod: " is not valid: " in (pod["reason"] or ""))
    assert chosen("--queue", "training") == those(lambda pod: pod["queue"] == "training")
    assert chosen("--node", "share-1") == those(lambda pod: pod["node"] == "share-1")
    by_object = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in objects
        if each["spec"].get("nodeName", "") == "" and each["metadata"]["namespace"] != "vnpu"
    }
    assert by_object
    assert chosen("--field-selector", "spec.nodeName=,metadata.namespace!=vnpu") == by_object
    # A field that is null, or missing in all that other options leave, exists.
    assert chosen("--status", "bound", "--field-selector", "reason!=x") == chosen("--status", "Bound")
    assert chosen("--status", "bound", "--sort-by", ".waiting_since") == chosen("--status", "bound")
    events = json.loads(system.out("get", "events", "--field-selector", "reason=Scheduled", "-o", "json"))["items"]
    assert {each["reason"] for each in events} == {"Scheduled"}
    for options, error in (
        (("nodes", "--status", "bound"), "--status selects pods, not nodes"),
        (("pods", "--field-selector", "spec.nodename=a"), "field label not supported: spec.nodename"),
        (
            ("pods", "--field-selector", "spec.nodeName"),
            "--field-selector 'spec.nodeName' is not valid: ",
        ),
        (("pods", "gpu-pod1", "--status", "bound"), "name cannot be provided when a selector is specified"),
    ):
        done = system.command("get", *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"deviceshare: {error}")


def test_what_pods_hold_adds_up_to_what_is_used_of_the_cards(system: System) -> None:
    used: Counter[str] = Counter()
    for device in json.loads(system.out("get", "devices", "-o", "json"))["items"]:
        used[device["type"] or "unknown"] += device["memory_used"]
    held: Counter[str] = Counter()
    for each in json.loads(system.out("top", "pods", "-o", "json"))["pods"]:
        held[each["model"]] += each["memory"]
    assert +held == +used
    assert len(+held) > 5


def test_outputs(system: System) -> None:
    one = json.loads(system.out("get", "pod", "gpu-pod1", "-o", "json"))
    assert (one["name"], one["state"], one["node"]) == ("gpu-pod1", "Bound", "share-1")
    found = yaml.safe_load(system.out("get", "pod", "gpu-pod1", "-o", "yaml"))
    assert (found["kind"], found["metadata"]["name"], found["spec"]["nodeName"]) == ("Pod", "gpu-pod1", "share-1")
    nodes = yaml.safe_load(system.out("get", "nodes", "-o", "yaml"))
    assert (nodes["kind"], nodes["items"][0]["kind"]) == ("List", "Node")
    used = [int(row[5].split("/")[0]) for row in system.lines("get", "dev", "share-1/0", "share-1/3")[1:]]
    assert used == sorted(used, reverse=True)
    by_memory = [row[2] for row in system.lines("get", "dev", "--sort-by", ".memory_used", "--no-headers")]
    assert len(by_memory) == len(system.lines("get", "dev")) - 1


def test_a_watch_prints_what_changes(system: System) -> None:
    watch = subprocess.Popen(
        [COMMAND, "get", "pods", "-n", "watched", "-w"], stdout=subprocess.PIPE, text=True, env=system.environment
    )
    assert watch.stdout is not None
    try:
        assert watch.stdout.readline().split()[:3] == ["NAMESPACE", "NAME", "STATUS"]
        pod = Path(POD).read_text().replace("name: hami-pod", "name: late\n  namespace: watched")
        assert system.command("apply", "-f", "-", stdin=pod).returncode == 0
        line = watch.stdout.readline()
        while "Bound" not in line:
            line = watch.stdout.readline()
        assert line.split()[:3] == ["watched", "late", "Bound"]
        assert system.out("delete", "pod", "late", "-n", "watched") == 'pod "late" deleted\n'
        assert watch.stdout.readline().split()[:2] == ["watched", "late"]
        watch.send_signal(signal.SIGINT)
        assert watch.wait(10) == 130
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()


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
    assert "asked 50000 MiB, at most 40960 MiB free, 9040 MiB missing" in large.stdout


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


def test_the_version_and_completion() -> None:
    version = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"deviceshare \d+\.\d+\.\d+\n", version.stdout)
    environment = {
        **os.environ,
        "_DEVICESHARE_COMPLETE": "complete_bash",
        "COMP_WORDS": "deviceshare expl",
        "COMP_CWORD": "1",
    }
    completed = subprocess.run([COMMAND], capture_output=True, text=True, env=environment)
    assert completed.stdout.strip() == "explain"


def test_get_imports_no_large_package(system: System) -> None:
    code = (
        "import sys; sys.argv = ['deviceshare', 'get', 'nodes', '--snapshot', '/nowhere']\n"
        "from deviceshare_cli.main import main\n"
        "import deviceshare_cli.getting, deviceshare_cli.reading.live, deviceshare_cli.json_api\n"
        "print(sorted({'numpy', 'nats', 'aiohttp', 'kubernetes', 'yaml'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
