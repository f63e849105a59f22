"""``deviceshare chaos``: short runs; nothing is left behind. ``make chaos`` runs it for an hour.

``DEVICESHARE_CHAOS_SEEDS``: the seeds of runs of all kinds of faults, comma-separated; `.ci/run` sets others for each
change.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.processes import wait_until_dead

COMMAND = str(Path(sys.executable).parent / "deviceshare")
KINDS = (
    *("kill", "kill-all", "pause", "delay", "cut", "refuse", "half-open", "partition"),
    *("kill-bus", "pause-bus", "write-errors", "kill-cluster", "pause-cluster"),
    *("wipe", "roll-back", "empty-stream", "garbage", "wrong-subject", "forged-claim", "other-scheduler"),
)
"""Each once. Not among them: what takes long (disk-full), and more ways to stop the bus or to lose a stream."""
REPLICAS = "placement=2,binder=2,inventory=2"
SEEDS = os.environ.get("DEVICESHARE_CHAOS_SEEDS", "3,77123,77124").split(",")


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    """Start a run with short faults whose directory is under ``tmp_path``."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DEVICESHARE_RUN_DIR": str(tmp_path / "run")}
    command = [COMMAND, "chaos", "--nodes", "2", "--longest", "1.5", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def left_over(tmp_path: Path) -> list[Path]:
    return [*tmp_path.glob("deviceshare-chaos-*"), *(tmp_path / "run").glob("*")]


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.timeout(600)
def test_twenty_short_faults_break_no_rule(tmp_path: Path) -> None:
    options = ["--faults", str(len(KINDS)), "--pace", "2.5", "--replicas", REPLICAS, "--kinds", ",".join(KINDS)]
    running = start(tmp_path, "--seed", "1", "--bus", "open", *options)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert re.match(r"20 faults, 0 violations \(seed 1, \d+ s\)$", said.splitlines()[-1]), said
    began = re.findall(r"^ *[\d.]+ s  #(\d+) ([a-z-]+): (?!ended)", said, re.MULTILINE)
    assert [int(number) for number, _ in began] == list(range(1, 21)), said
    assert {kind for _, kind in began} == set(KINDS), said
    assert "bus without users" in said
    assert left_over(tmp_path) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_faults_by_any_seed_break_no_rule_of_a_bus_with_users(tmp_path: Path, seed: str) -> None:
    running = start(tmp_path, "--seed", seed, "--faults", "9", "--pace", "1.5", "--replicas", REPLICAS)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert re.match(rf"9 faults, 0 violations \(seed {seed}, \d+ s\)$", said.splitlines()[-1]), said
    assert "bus with users" in said
    assert left_over(tmp_path) == []


def test_ctrl_c_ends_with_the_summary_and_leaves_nothing(tmp_path: Path) -> None:
    running = start(tmp_path)
    assert running.stdout is not None
    until = time.monotonic() + 60
    while " settled " not in (line := running.stdout.readline()):
        assert line, "it ended by itself"
        assert time.monotonic() < until
    processes = children(running.pid)
    assert len(processes) == 6  # four services, two servers
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert re.match(r"\d+ faults, 0 violations ", said.splitlines()[-1]), said
    wait_until_dead(processes)
    assert left_over(tmp_path) == []


def test_wrong_options_are_one_line(tmp_path: Path) -> None:
    for options, expected in ((["--kinds", "flood"], "there is no fault flood"), (["--seed", "x"], "--seed 'x'")):
        running = start(tmp_path, *options)
        said, _ = running.communicate()
        assert running.returncode == 1
        assert said.startswith("deviceshare: ")
        assert expected in said
        assert len(said.splitlines()) == 1
