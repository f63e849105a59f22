"""``deviceshare up`` signs with a random key, unless keys are given."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deviceshare_cli.credentials import files
from deviceshare_cli.system import CREDENTIALS, signing_environment
from deviceshare_cluster.signing import FILE, KEY, signing_keys
from support.up_manifests import NODE, pod

pytestmark = pytest.mark.system
COMMAND = str(Path(sys.executable).parent / "deviceshare")
MANIFESTS = f"{NODE}---{pod('p')}"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(FILE, raising=False)


def test_the_key_is_random_and_in_a_file_of_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        files.write(directory / CREDENTIALS, (), tls=False)
    path = Path(signing_environment(one)[FILE])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() != Path(signing_environment(two)[FILE]).read_text()
    monkeypatch.setenv(FILE, str(path))
    assert len(signing_keys()[0]) == 43, "32 random bytes"
    assert signing_environment(two) == {}, "keys are given"


def test_pods_are_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path / "run"))
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "all.yaml").write_text(MANIFESTS)
    arguments = ("up", "--cluster", f"local:{manifests}", "--until-settled", "--json", "--metrics-port", "0")
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (pod,) = json.loads(done.stdout)["pods"]
    signature, _, covered = pod["annotations"]["deviceshare.io/signature"].partition(":")
    assert len(signature) == 64
    assert "volcano.sh/vgpu-ids-new" in covered
