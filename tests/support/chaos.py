"""Runs of ``deviceshare lab chaos``, and what they print and leave behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "deviceshare")
REPLICAS = "placement=2,binder=2,inventory=2"


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    """Start a run with short faults whose directory is under ``tmp_path``."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DEVICESHARE_RUN_DIR": str(tmp_path / "run")}
    command = [COMMAND, "lab", "chaos", "--nodes", "2", "--longest", "1.5", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def begun(said: str) -> list[str]:
    """Return the kinds of the faults that took effect in a run, which numbers them."""
    faults = re.findall(r"^ *[\d.]+ s  #(\d+) ([a-z-]+): (?!ended)", said, re.MULTILINE)
    assert [int(number) for number, _ in faults] == list(range(1, len(faults) + 1)), said
    return [kind for _, kind in faults]


def left_over(tmp_path: Path) -> list[Path]:
    """Return what a run has left behind."""
    return [*tmp_path.glob("deviceshare-chaos-*"), *(tmp_path / "run").glob("*")]
