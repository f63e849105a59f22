"""Options of services that name no cluster end the process with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize("service", ["inventory", "binder"])
@pytest.mark.parametrize(
    ("spec", "text", "says"),
    [
        ("kube:nope", KUBECONFIG, "no cluster: Invalid kube-config file. Expected object with name nope"),
        ("kube", "", "no cluster: "),
        ("kube", "{", "no cluster: "),
        ("elsewhere", KUBECONFIG, "expected kube, kube:CONTEXT or local:nats://host:port"),
    ],
)
def test_a_cluster_without_a_configuration_is_one_line(
    service: str, spec: str, text: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(text)
    unset = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run(
        [sys.executable, "-m", f"deviceshare_{service}", "--bus", "nats://127.0.0.1:1", "--cluster", spec],
        env={**unset, "KUBECONFIG": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert done.stderr.startswith(f"deviceshare-{service}: --cluster {spec!r} is not valid: ")
    assert says in done.stderr
