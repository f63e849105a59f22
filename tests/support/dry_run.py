"""``deviceshare up --dry-run`` beside another scheduler, on an API server that logs what deviceshare's account asks."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deviceshare_cluster.interface import Object
from prometheus_client.parser import text_string_to_metric_families
from support import apiserver as kube
from support import deploy
from support.apiserver import ApiServer
from support.history import asked, audit_options
from support.running import COMMAND, RunningOnKube, http_get

NAMESPACE, USER = "deviceshare-system", "dry-run"


@contextmanager
def audited(directory: Path) -> Iterator[ApiServer]:
    """Give an API server with an audit log in a directory, and deviceshare's account, which may do everything."""
    server = ApiServer(kube.binaries(), directory, *audit_options(directory))
    try:
        server.start()
        add_account(server, NAMESPACE, USER)
        yield server
    finally:
        server.stop()


def add_account(server: ApiServer, namespace: str, user: str) -> None:
    """Create a service account that may do everything, in a namespace of its own."""
    server.request("POST", "/api/v1/namespaces", *deploy.namespaces(namespace))
    server.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": user}})
    everything = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": namespace}],
    }
    server.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", everything)


def verbs(directory: Path) -> set[str]:
    """Return what deviceshare's account asked, by the audit log: the verbs."""
    ours = [each for each in asked(directory) if each.user.endswith(f":{USER}")]
    assert {each.what.strip() for each in ours} >= {"pods", "nodes"}
    return {each.verb for each in ours}


class DryRun(RunningOnKube):
    """A running system, and what its commands show."""

    def __init__(self, directory: Path, server: ApiServer, conf: Path) -> None:
        kubeconfig = server.kubeconfig(USER, deploy.token(server, NAMESPACE, USER))
        super().__init__(directory, kubeconfig, "--conf", str(conf), "--dry-run")

    async def follows(self, log: Path) -> None:
        """Wait until the binder, whose log this is, knows the cluster: only what it knows before is compared."""
        while not await asyncio.to_thread(_is_ready, log):
            await asyncio.sleep(0.1)

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

    async def claims(self) -> list[Object]:
        """Return the claims in the ledgers."""
        items: list[Object] = json.loads(await self._page("/api/v1/claims"))["items"]
        return items

    async def results(self) -> dict[str, int]:
        """Return how many pods were compared with each result."""
        text = (await self._page("/metrics")).decode()
        families = {each.name: each for each in text_string_to_metric_families(text)}
        samples = families["deviceshare_dry_run_compared_pods"].samples
        return {each.labels["result"]: int(each.value) for each in samples}

    async def _page(self, path: str) -> bytes:
        return await asyncio.to_thread(http_get, await self._run_file(), path)


def _is_ready(log: Path) -> bool:
    """Return whether a service, whose log this is, can do its work."""
    found = re.search(r'"addresses":\["(http:[^"]+)"', log.read_text() if log.exists() else "")
    try:
        if found:
            urllib.request.urlopen(f"{found[1]}/readyz", timeout=10).close()
    except OSError:
        return False
    return found is not None
