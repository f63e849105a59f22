"""`deviceshare check` of a real API server: the cluster is read and not changed."""

import json
import subprocess
from pathlib import Path

import yaml
from support import deploy
from support.apiserver import ApiServer
from support.example_cluster import EXAMPLES
from support.running import COMMAND

NAME = "check-node"
NODE = next(yaml.safe_load_all((EXAMPLES / "nodes" / "vgpu-1080ti.yaml").read_text()))
BROKEN = NODE | {"metadata": {"name": NAME, "annotations": {"volcano.sh/node-vgpu-register": "GPU-1,10"}}}


def test_a_real_cluster_is_read_and_not_changed(apiserver: ApiServer, tmp_path: Path) -> None:
    deploy.apply(apiserver, *deploy.namespaces("check-test"))
    deploy.create_node(apiserver, BROKEN)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": apiserver.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": apiserver.token}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    try:
        before = apiserver.request("GET", f"/api/v1/nodes/{NAME}")
        command = [str(COMMAND), "check", "--kubeconfig", str(path), "--context", "c", "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 3, done.stderr
        (finding,) = [each for each in json.loads(done.stdout)["findings"] if each["object"] == f"Node {NAME}"]
        assert "GPU-1,10" in finding["value"]
        assert apiserver.request("GET", f"/api/v1/nodes/{NAME}") == before
    finally:
        apiserver.request("DELETE", f"/api/v1/nodes/{NAME}")
