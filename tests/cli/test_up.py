"""`deviceshare up` on small directories, and the other commands on the running system."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli import runfile
from deviceshare_cli.system import secret_file
from support.processes import is_alive, wait_until_dead
from support.up_manifests import NODE, pod

pytestmark = pytest.mark.system
COMMAND = str(Path(sys.executable).parent / "deviceshare")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "all.yaml").write_text("---".join([NODE, pod("gpu-pod1"), pod("gpu-pod2"), pod("big", 1, 20000)]))
    return manifests


def deviceshare(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, input=stdin)


def test_until_settled_prints_the_result_as_json_and_removes_its_files(directory: Path) -> None:
    (directory / "broken.yaml").write_text("kind: [")
    (directory / "negative.yaml").write_text(pod("negative", number=-1))
    started = time.time()
    done = deviceshare("up", "--cluster", f"local:{directory}", "--until-settled", "--json", "--metrics-port", "0")
    assert done.returncode == 3, done.stderr  # settled, but manifests were rejected
    result = json.loads(done.stdout)
    big, one, two, negative = result["pods"]
    assert [shown["name"] for shown in result["pods"]] == ["big", "gpu-pod1", "gpu-pod2", "negative"]
    for placed in (one, two):
        assert placed["node"] == "node-a"
        assert placed["devices"] == [{"container": "main", "id": "GPU-1", "memory": 1024, "cores": 0}]
        assert placed["annotations"]["volcano.sh/vgpu-node"] == "node-a"
        assert placed["reason"] is None
    assert big["node"] is None
    assert big["devices"] == []
    assert big["reason"].startswith("0/1 nodes are unavailable: ")
    assert started < big["reason_at"] < time.time()
    assert negative["node"] is None
    assert "volcano.sh/vgpu-number]: '-1' is not valid" in negative["reason"]
    assert [rejected["object"] for rejected in result["rejected"]] == ["File broken.yaml", "Pod default/negative"]
    assert re.search(
        r"^rejected: File negative\.yaml, line \d+, column \d+: Pod default/negative: ", done.stderr, re.MULTILINE
    )
    assert "default/gpu-pod1 -> node-a: GPU-1 (1024 MiB)\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((directory.parent / "run").iterdir()) == []
    assert sorted(path.name for path in directory.parent.iterdir()) == ["manifests", "run"]


def test_characters_that_the_terminal_lacks_are_escaped(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    wrong = pod("wrong").replace("{name: wrong}", "{name: wrong, annotations: {volcano.sh/vgpu-mode: 显存}}")
    (directory / "wrong.yaml").write_text(wrong, encoding="utf-8")
    done = deviceshare("up", "--cluster", f"local:{directory}", "--until-settled", "--metrics-port", "0")
    assert done.returncode == 0, done.stderr
    assert r"'\u663e\u5b58' is not valid" in done.stdout
    assert "default/gpu-pod1 -> node-a" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cluster", "kube:nowhere"], "--cluster kube:nowhere: no cluster: there is no service account"),
        (["--cluster", "elsewhere"], "--cluster elsewhere: expected local:DIR, a directory of manifests, kube or"),
        (["--cluster", "local:/nowhere"], "/nowhere is not a directory"),
        (["--cluster", "local:{directory}", "--conf", "{directory}/none"], "none: cannot be read: No such file"),
    ],
)
def test_an_invalid_option_is_one_line(directory: Path, arguments: list[str], says: str) -> None:
    done = deviceshare("up", "--metrics-port", "0", *(argument.format(directory=directory) for argument in arguments))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert says in done.stderr


def test_the_timeout_is_an_error_with_the_open_work(directory: Path) -> None:
    options = ["--metrics-port", "0", "--until-settled", "--timeout", "0.5", "--json"]
    arguments = ["up", "--cluster", f"local:{directory}", *options]
    done = deviceshare(*arguments)
    assert done.returncode == 1
    assert "deviceshare: not settled after 0.5 s: " in done.stderr
    result = json.loads(done.stdout)
    assert not result["settled"]
    assert result["open"]


def test_the_error_of_a_misspelt_policy_has_the_valid_values(directory: Path) -> None:
    conf = directory.parent / "volcano-scheduler.conf"
    conf.write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: deviceshare\n'
        "    arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpak}\n"
    )
    done = deviceshare("up", "--cluster", f"local:{directory}", "--conf", str(conf))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    for part in (str(conf), "deviceshare.SchedulePolicy", "'binpak'", "binpack, spread"):
        assert part in done.stderr


def test_the_error_of_an_invalid_external_family_names_its_package(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = directory.parent / "acme-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[deviceshare.families]\nacme = acme:Acme\n")
    monkeypatch.setenv("PYTHONPATH", str(directory.parent))
    done = deviceshare("up", "--cluster", f"local:{directory}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Package acme 1.0: entry point acme of deviceshare.families: 'acme:Acme' is not valid" in done.stderr


def test_warnings_of_the_configurations_are_reported(directory: Path) -> None:
    conf = directory.parent / "volcano-scheduler.conf"
    conf.write_text("- name: deviceshare\n  arguments: {deviceshare.VGPUEnable: true}\n- name: binpak\n")
    (directory / "devices.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-vgpu-device-config, namespace: kube-system}\n"
        "data:\n  device-config.yaml: |\n    nvidia: {defaultMem: 0}\n"
    )
    options = ["--conf", str(conf), "--until-settled", "--metrics-port", "0"]
    done = deviceshare("up", "--cluster", f"local:{directory}", *options)
    assert done.returncode == 0, done.stderr
    warnings = sorted(line for line in done.stderr.splitlines() if "warning" in line)
    assert [warning.partition(": [1]")[0].partition(": nvidia")[0] for warning in warnings] == [
        "inventory: warning: ConfigMap kube-system/volcano-vgpu-device-config data[device-config.yaml], "
        "line 1, column 10",
        f"inventory: warning: File {conf}, line 3, column 9",
    ]
    assert "did you mean 'defaultMemory'?" in warnings[0]
    assert "did you mean 'binpack'?" in warnings[1]


def test_the_error_of_a_used_metrics_port_names_the_flag(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = deviceshare("up", "--cluster", f"local:{directory}", "--metrics-port", str(port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"port {port} for the metrics is in use" in done.stderr
    assert "--metrics-port" in done.stderr


def test_wrong_usage_ends_with_status_2() -> None:
    assert deviceshare("up").returncode == 2
    assert deviceshare("get", "pods", "-o", "xml").returncode == 2


def test_commands_need_a_running_system(directory: Path) -> None:
    for arguments in (["get", "pods"], ["explain", "pod", "x"], ["apply", "-f", str(directory)]):
        done = deviceshare(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("deviceshare: no deviceshare is running here: start one with")


class Running:
    """An `up` in the background."""

    def __init__(self, directory: Path) -> None:
        self.output = directory.parent / "up.out"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [COMMAND, "up", "--cluster", f"local:{directory}", "--metrics-port", "0"],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while text not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < until, self.output.read_text()
            time.sleep(0.05)

    def children(self) -> dict[int, str]:
        found = subprocess.run(
            ["ps", "--ppid", str(self.process.pid), "-o", "pid=,args="], capture_output=True, text=True, check=True
        )
        lines = (line.strip().split(" ", 1) for line in found.stdout.splitlines())
        return {int(pid): command for pid, command in lines}


@pytest.fixture
def running(directory: Path) -> Iterator[Running]:
    running = Running(directory)
    try:
        running.wait_for("NAMESPACE")
        yield running
    finally:
        running.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(15)
        running.process.kill()
        running.process.wait()


def get(*arguments: str) -> Any:
    done = deviceshare("get", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["items"]


def test_the_other_commands_on_a_running_system_after_a_service_was_killed(directory: Path, running: Running) -> None:
    (placement,) = (pid for pid, command in running.children().items() if "deviceshare_placement" in command)
    os.kill(placement, signal.SIGKILL)
    running.wait_for("placement was killed by SIGKILL, restarting in 0.2 s")

    done = deviceshare("apply", "-f", "-", stdin=pod("late") + "---" + pod("gpu-pod1") + "---" + pod("odd", "2.5"))
    assert done.stdout == "pod/late created\npod/gpu-pod1 unchanged\n"
    assert done.returncode == 1
    assert done.stderr.startswith("error: File standard input, line 30, column 50: Pod default/odd: ")
    running.wait_for("default/late -> node-a: GPU-1 (1024 MiB)")

    assert [node["name"] for node in get("nodes")] == ["node-a"]
    assert get("devices")[0]["memory_total"] == 11178
    assert {one["name"] for one in get("pods", "-n", "default")} == {"big", "gpu-pod1", "gpu-pod2", "late"}
    assert {one["name"] for one in get("claims")} == {"gpu-pod1", "gpu-pod2", "late"}
    assert deviceshare("get", "pods", "-n", "other").stderr == "No resources found in other namespace.\n"

    explained = deviceshare("explain", "pod", "late")
    assert "  Bound on node-a\n" in explained.stdout
    assert "  main: CUDA_DEVICE_MEMORY_LIMIT" in explained.stdout
    assert "0/1 nodes are unavailable" in deviceshare("explain", "pod", "default/big").stdout
    assert deviceshare("explain", "pod", "absent").stderr == 'Error from server (NotFound): pods "absent" not found\n'

    gone = deviceshare("delete", "-f", "-", stdin=pod("late") + "---" + pod("never"))
    assert gone.stdout == 'pod "late" deleted\n'
    assert gone.stderr == 'error: pod "never" not found\n'
    assert gone.returncode == 1
    assert deviceshare("delete", "--ignore-not-found", "-f", "-", stdin=pod("never")).returncode == 0
    running.wait_for("default/late deleted")

    children = running.children()
    # nats-server of the bus and of the cluster, four services, and the shell that removes files after a SIGKILL.
    assert len(children) == 7
    running.process.terminate()
    assert running.process.wait(15) == 0
    assert not any(is_alive(pid) for pid in children)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 1
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      schedulerName: volcano
      containers: [{name: main, image: busybox, resources: {limits: {volcano.sh/vgpu-memory: 100}}}]
"""
CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {pod-complete.stage.kwok.x-k8s.io/delay: 1s}}
        spec:
          schedulerName: volcano
          restartPolicy: Never
          containers: [{name: main, image: busybox, resources: {limits: {volcano.sh/vgpu-memory: 100}}}]
"""
NAMELESS = pod("x").replace("name: x", "generateName: once-")


def test_workloads_are_created_scaled_and_deleted_and_their_pods_end(directory: Path, running: Running) -> None:
    # It takes more than the queue has, so that no PodGroup would be admitted beside it.
    assert deviceshare("delete", "pod", "big").returncode == 0
    done = deviceshare("apply", "-f", "-", stdin=DEPLOYMENT + "---" + CRON_JOB)
    assert done.stdout == "deployment.apps/serve created\ncronjob.batch/nightly created\n"
    assert 'make Jobs with "deviceshare create job NAME --from=cronjob/nightly"' in done.stderr
    running.wait_for("default/serve-")
    assert deviceshare("scale", "deploy/serve", "--replicas", "3").stdout == "deployment.apps/serve scaled\n"
    absent = deviceshare("scale", "sts", "none", "--replicas", "3")
    assert absent.stderr == 'Error from server (NotFound): statefulsets.apps "none" not found\n'

    created = deviceshare("create", "job", "now", "--from", "cronjob/nightly")
    assert (created.stdout, created.returncode) == ("job.batch/now created\n", 0)
    again = deviceshare("create", "job", "now", "--from", "cronjob/nightly")
    assert again.returncode == 1
    assert "a name that no other Job has" in again.stderr
    missing = deviceshare("create", "job", "now", "--from", "cronjob/none")
    assert missing.stderr == 'Error from server (NotFound): cronjobs.batch "none" not found\n'
    names = {deviceshare("create", "-f", "-", stdin=NAMELESS).stdout for _ in range(2)}
    assert len(names) == 2
    assert all(re.fullmatch(r"pod/once-\w{5} created\n", name) for name in names)

    until = time.monotonic() + 60
    while not (
        [one["state"] for one in get("pods") if one["name"].startswith("now-")] == ["Ended"]
        and len([one for one in get("pods") if one["name"].startswith("serve-") and one["node"]]) == 3
    ):
        assert time.monotonic() < until, deviceshare("get", "pods").stdout
        time.sleep(0.1)
    assert deviceshare("delete", "job.batch", "now").stdout == 'job.batch "now" deleted\n'
    assert deviceshare("delete", "deploy", "serve").stdout == 'deployment.apps "serve" deleted\n'
    running.wait_for("deleted")
    while any(one["name"].startswith(("serve-", "now-")) for one in get("pods")):
        assert time.monotonic() < until, deviceshare("get", "pods").stdout
        time.sleep(0.1)


def test_other_users_of_the_machine_read_nothing(running: Running) -> None:
    (url, token) = re.findall(r"dashboard +(http://127\.0\.0\.1:\d+)/\?token=(\S{40,})", running.output.read_text())[0]
    for path in ("/api/v1/pods", "/metrics", "/api/v1/pods?token=" + token):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url + path)
    with urllib.request.urlopen(f"{url}/?token={token}") as answer:
        assert answer.url == f"{url}/login", "this client keeps no cookies"
    assert not [each for each in running.children().values() if token in each], "arguments are visible to everybody"
    run = runfile.find(str(running.process.pid))
    secret = secret_file(Path(run.directory))
    assert secret.read_text().strip() == token == run.token
    for path in (secret.parent, runfile.run_directory()):
        assert path.stat().st_mode & 0o077 == 0
    assert (runfile.run_directory() / f"run-{run.pid}.json").stat().st_mode & 0o077 == 0


def test_a_pod_of_another_scheduler_is_named_with_the_served_ones(directory: Path, running: Running) -> None:
    of_default_scheduler = pod("hami").replace("schedulerName: volcano", "priority: 0")
    done = deviceshare("apply", "-f", "-", stdin=of_default_scheduler)
    not_served = 'spec.schedulerName is "default-scheduler": deviceshare places pods with deviceshare or volcano'
    assert (done.stdout, done.returncode) == ("pod/hami created\n", 0)
    assert done.stderr.startswith("Warning: File standard input, line 6, column 3: ")
    assert done.stderr.endswith(f": {not_served}\n")
    until = time.monotonic() + 60
    while "hami" not in {one["name"] for one in get("pods")}:
        assert time.monotonic() < until
    (hami,) = (one for one in get("pods") if one["name"] == "hami")
    assert (hami["state"], hami["reason"]) == ("OtherScheduler", not_served)
    assert f"  OtherScheduler\n  {not_served}\n" in deviceshare("explain", "pod", "hami").stdout
    plain = of_default_scheduler.replace("name: hami", "name: plain").replace(
        "volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 1024", "cpu: 1"
    )
    deviceshare("apply", "-f", "-", stdin=plain)
    assert deviceshare("explain", "pod", "plain").stderr == f"error: pod default/plain: {not_served}\n"


def test_no_process_is_left_when_up_is_killed(directory: Path) -> None:
    running = Running(directory)
    try:
        running.wait_for("bus ")
        until = time.monotonic() + 60
        while len(children := running.children()) < 5:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        running.process.kill()
        running.process.wait()
    wait_until_dead(children)
