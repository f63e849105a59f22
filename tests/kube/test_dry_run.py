"""``deviceshare up --dry-run`` beside another scheduler on a real API server: nothing is written, choices are compared.

The test plays the other scheduler, so that each result comes once: it writes what Volcano's does. Volcano's own is
beside it in ``tests/node/test_dry_run_beside_volcano.py``.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import gpus
from support import deploy, dry_run
from support.apiserver import ApiServer
from support.definitions import installed
from support.dry_run import DryRun
from support.kube_cluster import CleanCluster

PODS = "/api/v1/namespaces/default/pods"
CARDS, MEMORY = 2, 16384
SECONDS = 240.0


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[ApiServer]:
    """Give an API server with an audit log, and a service account that may do everything."""
    with dry_run.audited(tmp_path) as server, installed(server, *deploy.read(deploy.KUBERNETES / "crds")):
        yield server


def bind(server: ApiServer, name: str, node: str, index: int) -> None:
    """Bind a pod as Volcano's scheduler does: first its annotations, then the binding."""
    found = {"volcano.sh/gpu-index": str(index), "volcano.sh/predicate-time": str(time.time_ns())}
    server.request("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": found}}, deploy.MERGE)
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    server.request("POST", f"{PODS}/{name}/binding", body)


async def test_nothing_is_written_and_choices_are_compared(audited: ApiServer, tmp_path: Path) -> None:
    published = gpus(CARDS, MEMORY)
    conf = tmp_path / "conf.yaml"
    conf.write_text(objects.conf({"GPUSharingEnable": "true"}))
    async with asyncio.timeout(SECONDS), CleanCluster(audited) as cluster:
        for number in range(2):
            await cluster.create(objects.node(f"node-{number}", published.resources, published.annotations))
        async with DryRun(tmp_path, audited, conf) as system:
            await system.follows(await system.logs() / "binder.log")
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
    assert dry_run.verbs(tmp_path) <= {"get", "list", "watch"}
