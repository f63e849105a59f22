"""The wheels and sdists of a release, built by the command of the release workflow and installed as a user would."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).parent / "uv")

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: a release is made of a commit")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with all wheels and sdists of the current commit."""
    directory = tmp_path_factory.mktemp("dist")
    url = "https://example.org/deviceshare"
    subprocess.run([sys.executable, ROOT / ".ci" / "build_dist.py", directory, "--url", url], check=True)
    return directory


def metadata(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as content:
        (name,) = (each for each in content.namelist() if each.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(content.read(name).decode())
    return {key: headers.get_all(key, []) for key in headers}


def test_each_distribution_has_a_wheel_an_sdist_and_one_version(distributions: Path) -> None:
    parts = ("libs/*", "services/*", "lab")
    names = {
        re.sub("-", "_", re.search(r'^name = "(.*)"$', file.read_text(), re.MULTILINE)[1])  # type: ignore[index]
        for part in parts
        for file in ROOT.glob(f"{part}/pyproject.toml")
    }
    wheels = {each.name.split("-")[0]: metadata(each) for each in distributions.glob("*.whl")}
    sdists = {each.name.split("-")[0]: each for each in distributions.glob("*.tar.gz")}
    assert wheels.keys() == sdists.keys() == names
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (version,) = {found["Version"][0] for found in wheels.values()}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0\+g[0-9a-f]{8})?", version)
    assert "+g" not in version or commit.startswith(version.partition("+g")[2])
    for name, found in wheels.items():
        needed = [each for each in found.get("Requires-Dist", []) if re.match(r"deviceshare\b", each)]
        assert all(each.endswith(f"=={version}") for each in needed), needed
        assert found["Summary"]
        assert found["Author"] == ["The deviceshare authors"]
        assert found["Project-URL"][0] == "Homepage, https://example.org/deviceshare"
        assert found["License-File"] == ["LICENSE"]
        assert found["Classifier"]
        with tarfile.open(sdists[name]) as content:
            members = {each.partition("/")[2] for each in content.getnames()}
        assert {"pyproject.toml", "README.md", "LICENSE"} <= members


def test_the_wheels_run_the_examples_in_a_new_environment(distributions: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    wheels = list(distributions.glob("*.whl"))
    (cli,) = (each for each in wheels if each.name.startswith("deviceshare_cli-"))
    install = [UV, "pip", "install", "--quiet", "--python", python, "--find-links", distributions]
    subprocess.run([*install, "--constraints", ROOT / "requirements" / "runtime.txt", cli], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DEVICESHARE"))}
    environment |= {"DEVICESHARE_RUN_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path)}
    code = (
        "import deviceshare.kernels.charges as kernel, deviceshare_bus.wire.framing as framing; print(kernel.__file__)"
    )
    where = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(tmp_path))
    assert where.strip().endswith(".so"), "the wheel has compiled kernels"
    command = [python.with_name("deviceshare"), "up", "--cluster", f"local:{ROOT / 'examples'}", "--metrics-port", "0"]
    options = ["--conf", str(ROOT / "examples" / "volcano-scheduler.conf"), "--until-settled", "--json"]
    done = subprocess.run([*command, *options], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "result").write_text(done.stdout)
    check = subprocess.run([sys.executable, ROOT / ".ci" / "check_run.py", tmp_path / "result"])
    assert check.returncode == 0
    assert json.loads(done.stdout)
