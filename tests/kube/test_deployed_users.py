"""The system as the manifests deploy it: own tokens, users of the bus with TLS, signatures, and the HTTP ports."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import apiserver as kube
from support import deploy
from support.agents.api import MERGE
from support.apiserver import ApiServer
from support.deployed import Deployed

NAMESPACE = "deployed-users"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
READER = "page-reader"
OUTSIDER = "outsider"
LIST_PODS = {"namespace": NAMESPACE, "verb": "list", "resource": "pods"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """Give an API server with all of our manifests."""
    directory = tmp_path / "kube"
    directory.mkdir()
    running = ApiServer(kube.binaries(), directory)
    try:
        running.start()
        deploy.install_all(running, NAMESPACE)
        yield running
    finally:
        running.stop()


def answer(url: str, token: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


async def found(what: Any, system: Deployed) -> Any:
    """Wait until ``what()`` is true, and return it."""
    until = asyncio.get_running_loop().time() + 60
    while not (value := await asyncio.to_thread(what)):
        assert not system.has_ended, system.log
        assert asyncio.get_running_loop().time() < until, system.log
        await asyncio.sleep(0.1)
    return value


def pod() -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
    container = {"name": "c", "image": "busybox", "resources": {"limits": limits}}
    spec = {"schedulerName": "deviceshare", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NAMESPACE}, "spec": spec}


@pytest.mark.timeout(600)  # it starts an API server and six processes
async def test_each_service_works_with_its_own_token_and_user(server: ApiServer, tmp_path: Path) -> None:
    node = yaml.safe_load((deploy.ROOT / "examples" / "nodes" / "vgpu-1080ti.yaml").read_text())
    deploy.create_node(server, node)
    # The API server adds the taint of a node that is not ready.
    server.request("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": None}}, MERGE)
    directory = tmp_path / "system"
    directory.mkdir()
    async with Deployed(server, directory, {}) as system:
        server.request("POST", PODS, pod())
        bound = await found(lambda: server.request("GET", f"{PODS}/p")["spec"].get("nodeName"), system)
        assert bound == node["metadata"]["name"]
        annotations = server.request("GET", f"{PODS}/p")["metadata"]["annotations"]
        assert [name for name in annotations if name.startswith("deviceshare.io/")], "it is not signed"

        def url() -> str:
            text = (directory / "metrics.log").read_text()
            addresses = re.findall(r"http://127\.0\.0\.1:\d+", "".join(re.findall(r'"addresses".*', text)))
            return addresses[-1] if addresses else ""

        page = await found(url, system)
        secret = (system.installation.credentials / "http" / "secret").read_text()
        assert answer(f"{page}/metrics", "")[0] == 401
        assert answer(f"{page}/metrics", secret)[0] == 200
        await found(lambda: "deviceshare_pods{" in answer(f"{page}/metrics", secret)[1], system)
        # A user sees the namespaces in which it may list pods: the metrics service asks the API server.
        for name in (OUTSIDER, READER):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
            server.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        outsider, token = [deploy.token(server, NAMESPACE, name) for name in (OUTSIDER, READER)]
        assert (await asyncio.to_thread(answer, f"{page}/api/v1/pods", outsider))[0] == 403
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
        server.request("POST", f"{rbac}/roles", {"metadata": {"name": READER}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER}
        subject = {"kind": "ServiceAccount", "name": READER, "namespace": NAMESPACE}
        binding = {"metadata": {"name": READER}, "roleRef": role, "subjects": [subject]}
        server.request("POST", f"{rbac}/rolebindings", binding)
        # The metrics service remembers a refusal for a minute, so the API server has to know the binding first.
        review = {"user": f"system:serviceaccount:{NAMESPACE}:{READER}", "resourceAttributes": LIST_PODS}
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        await found(lambda: server.request("POST", reviews, {"spec": review})["status"]["allowed"], system)

        def names() -> list[str]:
            status, text = answer(f"{page}/api/v1/pods", token)
            return [item["name"] for item in json.loads(text)["items"]] if status == 200 else []

        assert await found(names, system) == ["p"]
