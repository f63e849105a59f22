"""Commands that only read do not import what takes long: numpy with the scheduler, aiohttp, the local cluster."""

import os
import subprocess
import sys

import pytest

SLOW = ("numpy", "aiohttp", "deviceshare.families", "deviceshare_localcluster.admission", "nats", "kubernetes", "yaml")
CALLS = """
import importlib, sys
for name in sys.argv[1].split(): importlib.import_module(name)
print(*(name for name in sys.argv[2].split() if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("imported", "slow"),
    [
        (("deviceshare_cli.getting", "deviceshare_cli.explaining", "deviceshare_cli.json_api"), ()),
        (("deviceshare_cli.explaining_groups", "deviceshare_cli.describing"), ()),
        (("deviceshare_cli.explaining", "deviceshare_localcluster.local_objects"), ("nats",)),
        (("deviceshare_cli.whatif.top", "deviceshare_cli.whatif.holders"), ()),
        (("deviceshare_cli.whatif.fit", "deviceshare_placement.decoding"), set(SLOW) - {"aiohttp", "kubernetes"}),
    ],
)
def test_a_command_imports_no_more_than_it_needs(imported: tuple[str, ...], slow: tuple[str, ...]) -> None:
    modules = ("deviceshare_cli.main", "deviceshare_cli.reading.live", *imported)
    done = subprocess.run(
        [sys.executable, "-c", CALLS, " ".join(modules), " ".join(SLOW)], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == set(slow)


def test_a_command_does_not_look_for_garbage_among_what_it_reads_and_not_at_its_end() -> None:
    called = """
import gc, sys
from deviceshare_cli.main import main
from deviceshare_cli.process import GC_THRESHOLDS
sys.argv = ["deviceshare", "version"]
try: main()
except SystemExit as ended: print(ended.code, gc.get_threshold() == GC_THRESHOLDS, gc.get_freeze_count() > 10_000)
"""
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 True True"


def test_fit_does_not_look_for_garbage_among_what_it_has_made() -> None:
    called = """
import gc, sys
import deviceshare_cli.whatif.fit as module
from deviceshare_cli.main import main
looks = lambda: sum(generation["collections"] for generation in gc.get_stats())
async def fit(*_):
    global before, kept
    kept = [[] for _ in range(200_000)]
    before = looks()
    return len(kept) - 200_000
module._run_fit = fit
sys.argv = ["deviceshare", "fit", "-f", "pods.yaml"]
try: main()
except SystemExit as ended: print(ended.code, looks() - before)
"""
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=True)
    assert done.stdout == "0 0\n"


def test_numpy_starts_no_threads_in_a_command() -> None:
    called = """
import os, sys
from deviceshare_cli.main import main
sys.argv = ["deviceshare", "fit", "-f", "absent.yaml", "--snapshot", "absent"]
try: main()
except SystemExit as ended: print(ended.code, "numpy" in sys.modules, len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "1 True 1\n", done.stderr
