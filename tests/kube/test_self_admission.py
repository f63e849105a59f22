"""Without the admission policy, users who create PodGroups can write their phase: it does not admit them.

Inventory, placement and binder at work on a real API server, with a signing key.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deviceshare.model import ADMISSION, PodGroupFact
from deviceshare_binder import service as binder
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import decode_explanation, decode_fact
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.signing import KEY
from nats.js.errors import NotFoundError
from support import deploy
from support.apiserver import ApiServer
from support.definitions import installed
from support.kube_cluster import CleanCluster
from support.kube_scene import Scene, following, node
from support.service import at_work

MEMORY = "volcano.sh/vgpu-memory"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
API = "scheduling.volcano.sh/v1beta1"


def group(name: str, memory: str, phase: str = "", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"minMember": 1, "queue": "q", "minResources": {MEMORY: memory}}
    status = {"phase": phase} if phase else {}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": status}


@pytest.fixture
async def scene(apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setenv(KEY, "a key of at least 16 bytes")
    monkeypatch.setattr(
        binder, "open_cluster", lambda _, name, instance: KubeCluster(str(apiserver.kubeconfig()), name=name)
    )
    definitions = deploy.read(deploy.KUBERNETES / "crds")
    options = {"cluster": "kube", "plugin_patience": 60.0, "reports_per_second": 200.0, "dry_run": False}
    with installed(apiserver, *definitions):
        async with (
            CleanCluster(apiserver) as cluster,
            following(apiserver, nats_url, monkeypatch) as context,
            at_work("binder", binder.main, nats_url, **options),
        ):
            yield Scene(cluster, context)


async def last(scene: Scene, stream: str, subject: str) -> bytes:
    try:
        return (await scene.context.connection.jetstream.get_last_msg(stream, subject)).data or b""
    except NotFoundError:
        return b""


async def is_admitted(scene: Scene, name: str) -> bool:
    data = await last(scene, "CLUSTER", subjects.fact("podgroup", f"default/{name}"))
    fact = decode_fact(data) if data else None
    return isinstance(fact, PodGroupFact) and fact.admitted


async def test_a_phase_counts_only_with_our_signature(scene: Scene, apiserver: ApiServer) -> None:
    async def create(obj: dict[str, Any]) -> None:
        # The status is no subresource.
        await asyncio.to_thread(apiserver.request, "POST", GROUPS, obj)

    queue = {"apiVersion": API, "kind": "Queue", "metadata": {"name": "q"}}
    await scene.cluster.create({**queue, "spec": {"weight": 1, "capability": {MEMORY: "3000"}}})
    await scene.cluster.create(node())
    await create(group("forged", "6000", "Inqueue", **{ADMISSION: "0" * 64}))
    await create(group("honest", "3000"))
    await scene.until(lambda: is_admitted(scene, "honest"))
    honest = await scene.cluster.get("PodGroup", "default", "honest")
    assert honest["status"]["phase"] == "Inqueue"
    forged = await scene.cluster.get("PodGroup", "default", "forged")
    assert forged is not None

    async def forged_is_rejected() -> bool:
        data = await last(scene, "EXPLAIN", subjects.explain(forged["metadata"]["uid"]))
        return bool(data) and decode_explanation(data).decision == "rejected"

    await scene.until(forged_is_rejected)
    assert not await is_admitted(scene, "forged")

    # The signature of another PodGroup does not count either.
    stolen = honest["metadata"]["annotations"][ADMISSION]
    await create(group("thief", "6000", "Running", **{ADMISSION: stolen}))
    thief = await scene.cluster.get("PodGroup", "default", "thief")
    assert thief is not None

    async def thief_is_rejected() -> bool:
        data = await last(scene, "EXPLAIN", subjects.explain(thief["metadata"]["uid"]))
        return bool(data) and decode_explanation(data).decision == "rejected"

    await scene.until(thief_is_rejected)
