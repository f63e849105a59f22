"""`deviceshare get` on the running examples: which objects it lists, in which order and output, and what it watches."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from support.system import COMMAND, System, running_system
from support.up_commands import EXAMPLES

pytestmark = pytest.mark.system
POD = (EXAMPLES / "workloads" / "hami-pod.yaml").read_text()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running_system(tmp_path_factory.mktemp("system"), "--cluster", f"local:{EXAMPLES}") as system:
        yield system


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
    assert chosen("--status", "nominated") == set(), "no pod of the examples waits for others to go"
    assert chosen("--sort-by", ".priority") == chosen()
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
        pod = POD.replace("name: hami-pod", "name: late\n  namespace: watched")
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
