"""``deviceshare lab chaos``: a short run; nothing is left behind. ``make chaos`` runs it for an hour."""

import re
import signal
import time
from pathlib import Path

import pytest
from support.chaos import REPLICAS, begun, left_over, start
from support.processes import wait_until_dead

KINDS = (
    *("kill", "kill-all", "pause", "delay", "cut", "refuse", "half-open", "partition"),
    *("kill-bus", "pause-bus", "write-errors", "kill-cluster", "pause-cluster"),
    *("wipe", "roll-back", "empty-stream", "garbage", "wrong-subject", "forged-claim", "other-scheduler"),
)
"""Each once. Not among them: what takes long (disk-full), and more ways to stop the bus or to lose a stream."""


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.timeout(600)
def test_twenty_short_faults_break_no_rule(tmp_path: Path) -> None:
    options = ["--faults", str(len(KINDS)), "--pace", "2.5", "--replicas", REPLICAS, "--kinds", ",".join(KINDS)]
    running = start(tmp_path, "--seed", "1", "--bus", "open", *options)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert re.match(r"20 faults, 0 violations \(seed 1, \d+ s\)$", said.splitlines()[-1]), said
    assert sorted(begun(said)) == sorted(KINDS), said
    assert "bus without users" in said
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
