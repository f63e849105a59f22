"""Who reads the HTTP ports, decided by a real API server: tokens, namespaces, `/metrics`, and the command line."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession
from deviceshare.model import PodFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.web import Access, HttpSettings, Reviews, Sessions
from deviceshare_cluster.kube.reviewing import KubeReviewer
from deviceshare_metrics.server import Server, serve
from support import deploy
from support.apiserver import ApiServer
from support.metrics import catch_up, read
from support.running import COMMAND

OURS, THEIRS = "http-ours", "http-theirs"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def account(server: ApiServer, name: str, *bindings: tuple[str, dict[str, Any]]) -> str:
    """Return the token of a service account with these rules, each of a namespace ('': of the cluster)."""
    metadata = {"name": name}
    server.request("POST", f"/api/v1/namespaces/{OURS}/serviceaccounts", {"metadata": metadata})
    subject = {"kind": "ServiceAccount", "namespace": OURS, "name": name}
    for namespace, rule in bindings:
        kind, place = ("Role", f"{RBAC}/namespaces/{namespace}/") if namespace else ("ClusterRole", f"{RBAC}/")
        role: dict[str, Any] = {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        if "clusterRole" in rule:
            role["name"] = rule["clusterRole"]
        else:
            server.request("POST", f"{place}{kind.lower()}s", {"metadata": metadata, "rules": [rule]})
        body = {"metadata": metadata, "subjects": [subject], "roleRef": role}
        server.request("POST", f"{place}{kind.lower()}bindings", body)
    return deploy.token(server, OURS, name)


@pytest.fixture(scope="module")
def tokens(apiserver: ApiServer) -> dict[str, str]:
    deploy.apply(apiserver, *deploy.namespaces(OURS, THEIRS))
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    scrape = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    return {
        "metrics": account(apiserver, "http-metrics", ("", {"clusterRole": "system:auth-delegator"})),
        "alice": account(apiserver, "http-alice", (OURS, pods)),
        "admin": account(apiserver, "http-admin", ("", pods)),
        "prometheus": account(apiserver, "http-prometheus", ("", scrape)),
        "stranger": account(apiserver, "http-stranger"),
    }


def kubeconfig(server: ApiServer, path: Path, token: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def pod(namespace: str, name: str) -> tuple[str, PodFact]:
    return subjects.fact("pod", f"uid-{name}"), PodFact(uid=f"uid-{name}", namespace=namespace, name=name)


@asynccontextmanager
async def served(server: ApiServer, token: str, directory: Path) -> AsyncIterator[str]:
    """Serve two pods, one in each namespace, with the permissions of a token."""
    core = read(pod(OURS, "vole"), pod(THEIRS, "zebra"))
    catch_up(core)
    config = kubeconfig(server, directory / "metrics.yaml", token)
    async with KubeReviewer(str(config)) as reviewer:
        access = Access(HttpSettings("kubernetes"), Reviews(reviewer), Sessions())
        running = await serve(Server(core, lambda: True, access=access).app(), "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{running.addresses[0][1]}"
        finally:
            await running.cleanup()


async def test_users_see_the_namespaces_whose_pods_they_may_list(
    apiserver: ApiServer, tokens: dict[str, str], tmp_path: Path
) -> None:
    async with served(apiserver, tokens["metrics"], tmp_path) as url, ClientSession(url) as session:

        async def status(path: str, token: str) -> int:
            async with session.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
                return answer.status

        async def pods(token: str) -> list[str]:
            async with session.get("/api/v1/pods", headers={"Authorization": f"Bearer {token}"}) as answer:
                return [pod["name"] for pod in (await answer.json())["items"]]

        assert await pods(tokens["alice"]) == ["vole"]
        assert await pods(tokens["admin"]) == ["vole", "zebra"]
        assert await pods(apiserver.token) == ["vole", "zebra"]
        expected = {"alice": 403, "admin": 403, "prometheus": 200, "stranger": 403}
        assert {name: await status("/metrics", tokens[name]) for name in expected} == expected
        assert [await status("/api/v1/pods", tokens[name]) for name in ("prometheus", "stranger")] == [403, 403]
        header, payload, signature = tokens["admin"].split(".")
        for forged in ("x", "", f"{header}.{payload}.", f"{header}.{payload}.{signature[::-1]}", "a b", "é"):
            assert await status("/api/v1/pods", forged) == 401, forged


async def test_two_tokens_of_an_account_are_one_user(
    apiserver: ApiServer, tokens: dict[str, str], tmp_path: Path
) -> None:
    """Otherwise each token would cause reviews of all namespaces."""
    second = deploy.token(apiserver, OURS, "http-alice")
    assert second != tokens["alice"]
    async with KubeReviewer(str(kubeconfig(apiserver, tmp_path / "metrics.yaml", tokens["metrics"]))) as reviewer:
        user = await reviewer.user(tokens["alice"])
        assert user is not None
        assert user == await reviewer.user(second)
        assert await reviewer.may_list_pods(user, OURS)


async def test_without_the_permission_to_review_everything_is_refused(
    apiserver: ApiServer, tokens: dict[str, str], tmp_path: Path
) -> None:
    async with served(apiserver, tokens["stranger"], tmp_path) as url, ClientSession(url) as session:
        for path in ("/api/v1/pods", "/metrics"):
            async with session.get(path, headers={"Authorization": f"Bearer {tokens['admin']}"}) as answer:
                assert answer.status == 503


async def test_commands_read_an_installed_system(apiserver: ApiServer, tokens: dict[str, str], tmp_path: Path) -> None:
    async def run(*arguments: str, **variables: str) -> tuple[int, str, str]:
        environment = os.environ | {"KUBECONFIG": "/nowhere", "DEVICESHARE_RUN_DIR": str(tmp_path)} | variables
        process = await asyncio.create_subprocess_exec(
            str(COMMAND), *arguments, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, error = await process.communicate()
        return process.returncode or 0, out.decode(), error.decode()

    async with served(apiserver, tokens["metrics"], tmp_path) as url:
        get = ("get", "pods", "-o", "json", "--server", url)
        config = kubeconfig(apiserver, tmp_path / "alice.yaml", tokens["alice"])
        answers = await asyncio.gather(
            run(*get, "--token", tokens["admin"]),
            run(*get, DEVICESHARE_TOKEN=tokens["alice"]),
            run(*get, KUBECONFIG=str(config)),
            run("top", "--server", url, "-o", "json", "--token", tokens["alice"]),
            run("explain", "pod", "zebra", "-n", THEIRS, "--server", url, KUBECONFIG=str(config)),
            run(*get),
            run("snapshot", "--server", url, "--token", tokens["admin"]),
        )
        names = [sorted(pod["name"] for pod in json.loads(out)["items"]) for _, out, _ in answers[:3]]
        assert names == [["vole", "zebra"], ["vole"], ["vole"]]
        assert answers[3][0] == 0, answers[3][2]
        assert answers[4][0] == 1
        assert "zebra" in answers[4][2]
        assert "--token or DEVICESHARE_TOKEN" in answers[5][2]
        assert "DEVICESHARE_BUS" in answers[6][2]
