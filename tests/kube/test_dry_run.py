"""``deviceshare up --dry-run`` beside another scheduler on a real API server: nothing is written, choices are compared.

The test plays the other scheduler: it writes what Volcano's does. deviceshare's user may write everything; what it has
asked is in the audit log.
"""

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import gpus
from prometheus_client.parser import text_string_to_metric_families
from support import apiserver as kube
from support import deploy
from support.apiserver import ApiServer
from support.definitions import installed
from support.history import asked, audit_options
from support.kube_cluster import CleanCluster
from support.running import COMMAND, RunningOnKube

NAMESPACE, USER = "deviceshare-system", "dry-run"
PODS = "/api/v1/namespaces/default/pods"
CARDS, MEMORY = 2, 16384
SECONDS = 240.0


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[ApiServer]:
    """Give an API server with an audit log, and a service account that may do everything."""
    server = ApiServer(kube.binaries(), tmp_path, *audit_options(tmp_path))
    try:
        server.start()
        server.request("POST", "/api/v1/namespaces", *deploy.namespaces(NAMESPACE))
        server.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": USER}})
        everything = {
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}],
        }
        server.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", everything)
        with installed(server, *deploy.read(deploy.KUBERNETES / "crds")):
            yield server
    finally:
        server.stop()


def bind(server: ApiServer, name: str, node: str, index: int) -> None:
    """Bind a pod as Volcano's scheduler does: first its annotations, then the binding."""
    found = {"volcano.sh/gpu-index": str(index), "volcano.sh/predicate-time": str(time.time_ns())}
    server.request("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": found}}, deploy.MERGE)
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    server.request("POST", f"{PODS}/{name}/binding", body)


class DryRun(RunningOnKube):
    """A running system, and what its commands show."""

    async def shown(self, *arguments: str) -> str:
        """Return the output of a command, '' if it failed."""
        process = await asyncio.create_subprocess_exec(
            COMMAND, *arguments, env=self.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await process.communicate()
        return "" if process.returncode else output.decode()

    async def decided(self, name: str) -> tuple[str, int]:
        """Wait for the claim of a pod; return its node and the index of its card."""
        while True:
            for claim in json.loads(await self.shown("get", "claims", "-o", "json") or '{"items": []}')["items"]:
                if claim["name"] == name:
                    (device,) = claim["devices"]
                    return claim["node"], int(device["id"])

    async def compared(self, name: str) -> str:
        """Wait until a pod that was bound is compared; return what is said of it."""
        while "compared" not in (found := await self.shown("explain", "pod", name)):
            pass
        (line,) = [each for each in found.splitlines() if "compared" in each]
        return line.partition("bound by another scheduler to ")[2]

    async def results(self) -> dict[str, float]:
        """Return how many pods were compared with each result."""
        run = await self._run_file()
        request = urllib.request.Request(
            f"{run['metrics']}/metrics", headers={"Authorization": f"Bearer {run['token']}"}
        )
        with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
            families = {each.name: each for each in text_string_to_metric_families(answer.read().decode())}
        samples = families["deviceshare_dry_run_compared_pods"].samples
        return {each.labels["result"]: each.value for each in samples}


async def test_nothing_is_written_and_choices_are_compared(audited: ApiServer, tmp_path: Path) -> None:
    published = gpus(CARDS, MEMORY)
    conf = tmp_path / "conf.yaml"
    conf.write_text(objects.conf({"GPUSharingEnable": "true"}))
    token = deploy.token(audited, NAMESPACE, USER)
    options = (tmp_path, audited.kubeconfig(USER, token), "--conf", str(conf), "--dry-run")
    async with asyncio.timeout(SECONDS), CleanCluster(audited) as cluster:
        for number in range(2):
            await cluster.create(objects.node(f"node-{number}", published.resources, published.annotations))
        async with DryRun(*options) as system:
            said: list[tuple[str, str]] = []
            for name in ("same", "card", "node"):
                limits = {"volcano.sh/gpu-memory": "1024"}
                await cluster.create(objects.pod(name, limits, **objects.TOLERANT))
                node, index = decided = await system.decided(name)
                other = f"node-{1 - int(node[-1])}"
                place = {"same": decided, "card": (node, 1 - index), "node": (other, index)}[name]
                await asyncio.to_thread(bind, audited, name, *place)
                expected = "as decided" if place == decided else f"decided: {node} ("
                said.append((await system.compared(name), expected))
            assert [text for text, expected in said if expected not in text] == []
            assert await system.results() == {"same_cards": 1, "same_node": 1, "other_node": 1}
    ours = [each for each in asked(tmp_path) if each.user.endswith(f":{USER}")]
    assert {each.what.strip() for each in ours} >= {"pods", "nodes"}
    assert {each.verb for each in ours} <= {"get", "list", "watch"}
