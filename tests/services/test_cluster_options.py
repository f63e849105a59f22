"""Options of services that name no cluster end the process with one line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deviceshare_cluster
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from deviceshare_bus.web import User
from deviceshare_cluster import UnknownCluster, open_cluster, reviewer_of
from deviceshare_localcluster import LocalCluster

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


@pytest.mark.parametrize("service", ["inventory", "binder"])
def test_users_of_kubernetes_are_refused_without_a_cluster_to_ask(service: str) -> None:
    options = ("--bus", "nats://127.0.0.1:1", "--cluster", "local:nats://127.0.0.1:1", "--http-access", "kubernetes")
    done = subprocess.run(
        [sys.executable, "-m", f"deviceshare_{service}", *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--http-access" in done.stdout + done.stderr
    assert "there is no API server to ask" in done.stdout + done.stderr


async def test_reviews_ask_the_cluster_of_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The users of the kubeconfig's current context are others."""
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
    config |= {"contexts": [], "clusters": [], "users": [{"name": "u", "user": {}}]}
    servers = []
    for name in ("here", "there"):

        async def review(_: web.Request, name: str = name) -> web.Response:
            return web.json_response({"status": {"authenticated": True, "user": {"username": f"user of {name}"}}})

        app = web.Application()
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", review)
        servers.append(server := TestServer(app))
        await server.start_server()
        config["contexts"].append({"name": name, "context": {"cluster": name, "user": "u"}})
        config["clusters"].append({"name": name, "cluster": {"server": str(server.make_url("/")).rstrip("/")}})
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    try:
        for spec, name in (("kube", "here"), ("kube:here", "here"), ("kube:there", "there")):
            opened = reviewer_of(spec)
            assert opened is not None
            async with opened() as reviewer:
                assert await reviewer.user("token") == User(f"user of {name}")
    finally:
        for server in servers:
            await server.close()
    assert reviewer_of("local:nats://127.0.0.1:1") is None


def test_a_local_cluster_needs_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the image of the services, which lacks it."""
    assert isinstance(open_cluster("local:nats://127.0.0.1:1"), LocalCluster)
    monkeypatch.setattr(deviceshare_cluster, "entry_points", lambda **_: ())
    with pytest.raises(UnknownCluster, match="deviceshare-localcluster is not installed; expected kube"):
        open_cluster("local:nats://127.0.0.1:1")
