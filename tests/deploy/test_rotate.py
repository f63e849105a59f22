"""deploy/rotate.sh: Secrets on a real API server, and pods whose files change later, as kubelet does it."""

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deviceshare_bus.messages.permissions import USERS
from deviceshare_cli.credentials import files, rotation
from deviceshare_cli.credentials.manifests import SECRETS
from support import charts, deploy
from support.apiserver import ApiServer

SCRIPT = charts.ROOT / "deploy" / "rotate.sh"
SECRETS_PATH = f"/api/v1/namespaces/{charts.NAMESPACE}/secrets"
PODS = {"bus-0": "deviceshare-bus-server", "binder": "deviceshare-bus-binder"}

# `apply` is that of kubectl. `exec` shows the files of a pod, which change after the first look, and records whether
# those that nats-server reloads are those of its Secret.
KUBECTL = f"""#!{sys.executable}
import base64, json, subprocess, sys
from pathlib import Path
REAL, STATE, PODS, NAMESPACE = {{real!r}}, Path({{state!r}}), {PODS!r}, {charts.NAMESPACE!r}
arguments = sys.argv[1:]
log = (STATE / "log").open("a")
if arguments[0] == "apply":
    print("apply", arguments[arguments.index("--selector") + 1].rpartition(",")[2], file=log)
    done = subprocess.run([REAL, *arguments])
    get = [REAL, "-n", NAMESPACE, "get", "secrets", *PODS.values(), "-o", "json"]
    read = subprocess.run(get, capture_output=True, check=True)
    for pod, item in zip(PODS, json.loads(read.stdout)["items"], strict=True):
        assert PODS[pod] == item["metadata"]["name"]
        stored = {{key: base64.b64decode(value).decode() for key, value in item["data"].items()}}
        (STATE / f"{{pod}}.stored").write_text(json.dumps(stored))
    sys.exit(done.returncode)
assert arguments[:2] == ["-n", NAMESPACE]
if arguments[2:4] == ["get", "pods"]:
    if (STATE / "unanswered").exists():
        (STATE / "unanswered").unlink()
        sys.exit("the server does not answer")
    if (STATE / "none").exists():
        sys.exit()
    bus = arguments[arguments.index("--selector") + 1].endswith("name=bus")
    print("\\n".join(f"pod/{{pod}}" for pod in PODS if (pod == "bus-0") == bus))
    sys.exit()
assert arguments[2] == "exec"
pod, command = arguments[3].removeprefix("pod/"), arguments[-1]
stored, mounted = STATE / f"{{pod}}.stored", STATE / f"{{pod}}.mounted"
seen = mounted.read_text() if mounted.exists() else '{{"ca.crt": ""}}'
if command.startswith("kill -HUP 1"):
    if (STATE / "fail").exists():
        (STATE / "fail").unlink()
        sys.exit("cannot be reached")
    print("reload", "new" if seen == stored.read_text() else "old", file=log)
else:
    print(json.loads(seen)["ca.crt"], end="")
    mounted.write_text(stored.read_text())
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Give new credentials."""
    files.write(tmp_path / "credentials", ("localhost",))
    return tmp_path / "credentials"


@pytest.fixture
def run(apiserver: ApiServer, tmp_path: Path, directory: Path) -> Iterator[Run]:
    """Give a function that runs the script on an API server with the Secrets, and with the pods of the stub."""
    deploy.apply(apiserver, *deploy.namespaces(charts.NAMESPACE))
    stub = tmp_path / "kubectl"
    real = str(charts.tool("kubectl"))
    stub.write_text(KUBECTL.replace("{real!r}", repr(real)).replace("{state!r}", repr(str(tmp_path))))
    stub.chmod(0o755)
    own = str(Path(sys.executable).parent / "deviceshare")
    environment = os.environ | {"KUBECTL": str(stub), "DEVICESHARE": own, "INTERVAL": "0"}
    environment["KUBECONFIG"] = str(apiserver.kubeconfig())
    text = subprocess.run(
        [own, "credentials", str(directory), "--format", "kubernetes"], capture_output=True, text=True, check=True
    ).stdout
    subprocess.run([real, "apply", "--server-side", "-f", "-"], input=text, text=True, env=environment, check=True)

    def rotate(**variables: str) -> subprocess.CompletedProcess[str]:
        command = [SCRIPT, str(directory)]
        return subprocess.run(command, env=environment | variables, capture_output=True, text=True, timeout=120)

    yield rotate
    for name in SECRETS.values():
        apiserver.request("DELETE", f"{SECRETS_PATH}/{name}")


def stored(server: ApiServer) -> dict[str, dict[str, str]]:
    """Return the content of all Secrets, by name."""
    return {
        item["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in item["data"].items()}
        for item in server.request("GET", SECRETS_PATH)["items"]
    }


def seeds(directory: Path) -> dict[str, str]:
    return {user: (directory / user / "seed.nk").read_text() for user in USERS}


def expected(directory: Path) -> dict[str, dict[str, str]]:
    return {
        name: {path.name: path.read_text() for path in (directory / each).iterdir()} for each, name in SECRETS.items()
    }


def test_both_steps_begin_with_the_bus_and_a_failed_one_is_continued(
    run: Run, apiserver: ApiServer, directory: Path, tmp_path: Path
) -> None:
    old = seeds(directory)
    (tmp_path / "fail").touch()
    done = run()
    assert done.returncode != 0
    assert "cannot be reached" in done.stderr
    assert (directory / rotation.ROTATION).exists()
    new = seeds(directory)
    assert not set(old.values()) & set(new.values())
    done = run()
    assert done.returncode == 0, done.stderr
    assert seeds(directory) == new, "the rotation that had begun is continued"
    assert not (directory / rotation.ROTATION).exists()
    assert stored(apiserver) == expected(directory)
    step = ["apply app.kubernetes.io/name=bus", "reload new", "apply app.kubernetes.io/name!=bus"]
    assert (tmp_path / "log").read_text().splitlines() == [step[0], *step, *step]


def test_pods_that_cannot_be_listed_do_not_count_as_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "unanswered").touch()
    done = run()
    assert "the server does not answer" in done.stderr
    assert done.returncode == 0, done.stderr
    step = ["apply app.kubernetes.io/name=bus", "reload new", "apply app.kubernetes.io/name!=bus"]
    assert (tmp_path / "log").read_text().splitlines() == [*step, *step]
    (tmp_path / "none").touch()
    done = run(LONGEST="0")
    assert done.returncode != 0
    assert "no pod of the bus is running" in done.stderr
    assert (tmp_path / "log").read_text().splitlines()[6:] == [step[0]], "neither a reload nor the users"


def test_without_a_directory_it_says_how_to_use_it() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True)
    assert done.returncode != 0
    assert "rotate.sh DIR" in done.stderr
