"""``deviceshare lab bench ui``: the measurements of a small cluster in a real Chromium."""

import json
import subprocess
import sys

import pytest
from deviceshare_lab.bench.ui.command import as_text
from support.browser import needs_chromium

pytestmark = pytest.mark.system
COMMAND = [sys.executable, "-m", "deviceshare_cli", "lab", "bench", "ui"]


@needs_chromium
def test_a_small_cluster_is_measured():
    size = ["--nodes", "60", "--cards", "8", "--changes", "100", "--seconds", "3", "--json"]
    done = subprocess.run([*COMMAND, *size], capture_output=True, text=True, timeout=350)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["cards"], shown["errors"]) == (480, [])
    # A busy machine is slow: these bounds are far from what is measured alone.
    assert 0 < shown["first_paint_seconds"] < 5
    assert shown["frames_per_second"] > 5
    assert 50_000 < shown["transferred_bytes"] < 2_000_000
    assert shown["stream_bytes_per_second"] > 1000
    text = as_text(shown)
    assert "480 on 60 nodes" in text
    assert "at 100 changes/s" in text


def test_without_chromium_the_command_says_what_is_missing(tmp_path):
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([*COMMAND, "--nodes", "1"], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert "needs Chromium" in done.stderr
    assert "DEVICESHARE_CHROMIUM" in done.stderr
