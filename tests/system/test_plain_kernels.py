"""Without a C compiler the kernels run as the Python that they are: the examples are placed as always."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("deviceshare")


def test_the_examples_are_placed_by_kernels_that_are_not_compiled(tmp_path: Path) -> None:
    for package in ("deviceshare", "deviceshare-bus"):
        source = ROOT / "libs" / package / "src"
        shutil.copytree(source, tmp_path / package, ignore=shutil.ignore_patterns("*.so"))
    paths = os.pathsep.join(str(tmp_path / package) for package in ("deviceshare", "deviceshare-bus"))
    environment = os.environ | {"PYTHONPATH": paths, "DEVICESHARE_RUN_DIR": str(tmp_path / "run")}
    kernel = (
        "import deviceshare.kernels.row_scan as scan, deviceshare_bus; print(scan.__file__, deviceshare_bus.__file__)"
    )
    loaded = subprocess.run([sys.executable, "-c", kernel], env=environment, capture_output=True, text=True, check=True)
    assert all(each.startswith(str(tmp_path)) and each.endswith(".py") for each in loaded.stdout.split())
    command = [COMMAND, "up", "--cluster", "local:examples", "--conf", "examples/volcano-scheduler.conf"]
    options = ["--metrics-port", "0", "--timeout", "200", "--until-settled", "--json"]
    done = subprocess.run([*command, *options], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "result").write_text(done.stdout)
    check = subprocess.run([sys.executable, ROOT / ".ci" / "check_run.py", tmp_path / "result"], capture_output=True)
    assert check.returncode == 0, check.stderr
