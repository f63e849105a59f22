"""deploy/backup.sh on a real API server: what it saves comes back."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from support import charts, deploy
from support.apiserver import ApiServer
from support.definitions import installed

SCRIPT = charts.ROOT / "deploy" / "backup.sh"
CORE = f"/api/v1/namespaces/{charts.NAMESPACE}"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
MAPS = {f"/api/v1/namespaces/{name}/configmaps" for name in (charts.NAMESPACE, "volcano-system", "kube-system")}
CONFIGURATION = [
    (f"{CORE}/configmaps", "volcano-scheduler-configmap"),
    ("/api/v1/namespaces/volcano-system/configmaps", "volcano-scheduler-configmap"),
    ("/api/v1/namespaces/kube-system/configmaps", "volcano-vgpu-device-config"),
]
"""What inventory reads."""
FILES = ("secrets", "queues", "volcano-scheduler-configmap", "volcano-vgpu-device-config")
OF_KUBERNETES = ("kube-root-ca.crt", "kube-apiserver-", "extension-apiserver-")
LABELS = {"app.kubernetes.io/part-of": "deviceshare"}


def run(server: ApiServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KUBECTL": str(charts.tool("kubectl")), "KUBECONFIG": str(server.kubeconfig())}
    return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, timeout=60)


def stored(server: ApiServer) -> dict[str, Any]:
    """Return the content of all objects that a backup has, by path."""
    found = {}
    collections = [(f"{CORE}/secrets", "data"), *((path, "data") for path in sorted(MAPS)), (QUEUES, "spec")]
    for collection, fields in collections:
        for item in server.request("GET", collection)["items"]:
            if not item["metadata"]["name"].startswith(OF_KUBERNETES):
                found[f"{collection}/{item['metadata']['name']}"] = item.get(fields)
    return found


def secret(name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"keys": "one\ntwo\n"}}


def test_what_was_saved_is_restored(apiserver: ApiServer, tmp_path: Path) -> None:
    directory = tmp_path / "backup"
    deploy.apply(apiserver, *deploy.namespaces(charts.NAMESPACE, "volcano-system"))
    with installed(apiserver, *deploy.read(deploy.KUBERNETES / "crds")):
        before = stored(apiserver)
        # Without any object: nothing to restore.
        assert run(apiserver, "save", str(directory)).returncode == 0
        assert run(apiserver, "restore", str(directory)).returncode == 0
        assert stored(apiserver) == before
        apiserver.request("POST", f"{CORE}/secrets", secret("deviceshare-signing", LABELS))
        apiserver.request("POST", f"{CORE}/secrets", secret("of-others", {}))
        for path, name in CONFIGURATION:
            apiserver.request("POST", path, {"metadata": {"name": name}, "data": {"a.conf": "tiers:\n- plugins: []\n"}})
        for name, weight in (("research", 3), ("training", 1)):
            queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            apiserver.request("POST", QUEUES, queue | {"spec": {"weight": weight, "capability": {"cpu": "8"}}})
        saved = stored(apiserver)
        done = run(apiserver, "save", str(directory))
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE((directory / "secrets.yaml").stat().st_mode) == 0o600
        for path in saved:
            apiserver.request("DELETE", path)
        done = run(apiserver, "restore", str(directory))
        assert done.returncode == 0, done.stderr
        of_others = {f"{CORE}/secrets/of-others"}
        assert stored(apiserver) == {path: saved[path] for path in saved.keys() - of_others}
        # Restoring again, over objects that were changed, gives the same.
        apiserver.request("PATCH", f"{QUEUES}/research", {"spec": {"weight": 9}}, "application/merge-patch+json")
        assert run(apiserver, "restore", str(directory)).returncode == 0
        assert stored(apiserver) == {path: saved[path] for path in saved.keys() - of_others}
        for path in stored(apiserver):
            apiserver.request("DELETE", path)


def test_an_incomplete_backup_is_not_restored(apiserver: ApiServer, tmp_path: Path) -> None:
    for missing in FILES:
        for name in FILES:
            (tmp_path / f"{name}.yaml").write_text("items: []\n")
        assert run(apiserver, "restore", str(tmp_path)).returncode == 0
        (tmp_path / f"{missing}.yaml").unlink()
        done = run(apiserver, "restore", str(tmp_path))
        assert done.returncode == 1
        assert f"{missing}.yaml does not exist" in done.stderr
    assert run(apiserver, "restore", str(tmp_path / "misspelt")).returncode == 1


def test_a_wrong_call_says_how_to_use_it(apiserver: ApiServer) -> None:
    for arguments in ((), ("save",), ("erase", "x")):
        done = run(apiserver, *arguments)
        assert done.returncode != 0
        assert "save|restore DIR" in done.stderr
