"""The Job of the chart that generates Secrets: with its own account on a real API server, and the bus they give."""

import base64
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from deviceshare_cli.credentials.certificates import end_of
from deviceshare_cli.credentials.keys import public_of
from support import charts, deploy
from support.apiserver import ApiServer

NAMESPACE = charts.NAMESPACE
CHANGED = {"deviceshare-bus-reader", "deviceshare-bus-server"}
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


def objects() -> dict[tuple[str, str, str], charts.Object]:
    return {charts.key(obj): obj for obj in charts.rendered()}


def job_container() -> charts.Object:
    (container,) = objects()["Job", NAMESPACE, "credentials"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def mounted() -> set[str]:
    """Return the names of the Secrets that pods mount."""
    found = set()
    for obj in objects().values():
        if obj["kind"] in ("Deployment", "StatefulSet"):
            for volume in obj["spec"]["template"]["spec"].get("volumes", ()):
                sources = [volume, *volume.get("projected", {}).get("sources", ())]
                found |= {
                    each["secret"].get("secretName") or each["secret"]["name"] for each in sources if "secret" in each
                }
    return found


@pytest.fixture
def kubeconfig(apiserver: ApiServer) -> Iterator[Path]:
    """Create the account of the Job with its Role, give a kubeconfig with its token, and delete its Secrets."""
    names = ("credentials", "deviceshare-credentials")
    own = [obj for obj in objects().values() if obj["metadata"]["name"] in names]
    deploy.apply(apiserver, *deploy.namespaces(NAMESPACE))
    with deploy.applied(apiserver, *(obj for obj in own if obj["kind"] in ("ServiceAccount", "Role", "RoleBinding"))):
        token = deploy.token(apiserver, NAMESPACE, "credentials")
        yield apiserver.kubeconfig("credentials", token)
        for name in secrets(apiserver):
            apiserver.request("DELETE", f"{SECRETS}/{name}")


def secrets(server: ApiServer) -> dict[str, dict[str, bytes]]:
    """Return the Secrets of the namespace with their content."""
    return {
        item["metadata"]["name"]: {name: base64.b64decode(value) for name, value in item["data"].items()}
        for item in server.request("GET", SECRETS)["items"]
    }


def run_job(kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """Run the Job's command as a process with its account."""
    command = [str(Path(sys.executable).parent / "deviceshare"), *job_container()["args"]]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_the_job_makes_the_secrets_that_pods_mount_and_changes_none(apiserver: ApiServer, kubeconfig: Path) -> None:
    done = run_job(kubeconfig)
    assert done.returncode == 0, done.stderr
    made = secrets(apiserver)
    # It keeps no directory: new certificates come with a pause.
    end = end_of(made["deviceshare-bus-binder"]["tls.crt"].decode())
    assert end - datetime.now(UTC) > timedelta(days=3600)
    assert f"certificates of the bus are valid until {end:%Y-%m-%d}\n" in done.stdout
    assert set(made) == mounted() | {"deviceshare-bus-reader", "deviceshare-bus-admin"}
    done = run_job(kubeconfig)
    assert (done.returncode, done.stdout) == (0, "all Secrets exist\n")
    assert secrets(apiserver) == made
    # A failed Job may have left only some Secrets of the bus: that of nats-server is the last one.
    apiserver.request("DELETE", f"{SECRETS}/deviceshare-bus-server")
    assert run_job(kubeconfig).returncode == 0
    again = secrets(apiserver)
    assert set(again) == set(made)
    assert again["deviceshare-signing"] == made["deviceshare-signing"]
    assert all(again[name] != made[name] for name in made if name.startswith("deviceshare-bus-"))
    apiserver.request("DELETE", f"{SECRETS}/deviceshare-bus-binder")
    done = run_job(kubeconfig)
    assert done.returncode == 1
    assert "deviceshare-bus-binder do not exist, but deviceshare-bus-server does" in done.stderr


def test_the_job_gives_nats_server_the_permissions_of_its_version(apiserver: ApiServer, kubeconfig: Path) -> None:
    assert run_job(kubeconfig).returncode == 0
    made = secrets(apiserver)
    # As an earlier version without the user `reader` has left it, and that had other permissions for `metrics`.
    text = made["deviceshare-bus-server"]["auth.conf"].decode()
    earlier = text.replace('"$JS.API.INFO", ', "")
    earlier = re.sub(r"    # reader\n    \{.*?\n    \}\n", "", earlier, flags=re.DOTALL)
    stored = apiserver.request("GET", f"{SECRETS}/deviceshare-bus-server")
    stored["data"]["auth.conf"] = base64.b64encode(earlier.encode()).decode()
    stored["metadata"]["labels"]["own"] = "kept"
    apiserver.request("PUT", f"{SECRETS}/deviceshare-bus-server", stored)
    apiserver.request("DELETE", f"{SECRETS}/deviceshare-bus-reader")
    done = run_job(kubeconfig)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "created deviceshare-bus-reader\nupdated deviceshare-bus-server\n"
    now = secrets(apiserver)
    assert {name: content for name, content in now.items() if name not in CHANGED} == {
        name: content for name, content in made.items() if name not in CHANGED
    }
    old_key = re.findall(r"# reader\n    \{\n      nkey: (\S+)", text)[0]
    new_key = public_of(now["deviceshare-bus-reader"]["seed.nk"].decode())
    assert now["deviceshare-bus-server"]["auth.conf"].decode() == text.replace(old_key, new_key)
    assert apiserver.request("GET", f"{SECRETS}/deviceshare-bus-server")["metadata"]["labels"]["own"] == "kept"
    assert run_job(kubeconfig).stdout == "all Secrets exist\n"


def test_the_job_may_touch_no_other_secret(apiserver: ApiServer, kubeconfig: Path) -> None:
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": NAMESPACE}}
    apiserver.request("POST", SECRETS, other)
    (user,) = yaml.safe_load(kubeconfig.read_text())["users"]
    headers = {"Authorization": f"Bearer {user['user']['token']}"}
    try:
        for method, path in (("GET", SECRETS), ("GET", f"{SECRETS}/other"), ("DELETE", f"{SECRETS}/other")):
            request = urllib.request.Request(f"{apiserver.url}{path}", method=method, headers=headers)
            with pytest.raises(HTTPError) as denied:
                urllib.request.urlopen(request, context=apiserver.tls(), timeout=30)
            assert denied.value.code == 403
            denied.value.close()
    finally:
        with suppress(HTTPError):
            apiserver.request("DELETE", f"{SECRETS}/other")
