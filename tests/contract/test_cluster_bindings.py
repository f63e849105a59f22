"""The contract of every cluster: pods are bound once, fences stop bindings that were sent before."""

import asyncio
import json
from typing import Any

import pytest
from deviceshare.model import FENCE, fenced_claims
from deviceshare_cluster.interface import BindState, Change
from support.contract import created, listed, revision_of, until


async def test_binding_names_the_node_and_merges_annotations_in_one_change(cluster: Any) -> None:
    uid = await created(cluster, "a")
    watch = cluster.watch(["Pod"])
    await until(watch, listed)
    binding = await cluster.bind("default", "a", uid, "gpu-1", {"volcano.sh/vgpu-node": "gpu-1"})
    assert binding.state is BindState.BOUND
    assert binding.node == "gpu-1"
    (change,) = await until(watch, lambda item: isinstance(item, Change))
    assert isinstance(change, Change)
    bound = json.loads(change.raw)
    assert bound["spec"]["nodeName"] == "gpu-1"
    assert bound["metadata"]["annotations"] == {"user": "kept", "volcano.sh/vgpu-node": "gpu-1"}
    assert [(one["type"], one["status"]) for one in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    await watch.aclose()


async def test_a_bound_pod_is_not_bound_again(cluster: Any) -> None:
    uid = await created(cluster, "a")
    await cluster.bind("default", "a", uid, "gpu-1", {"mine": "1"})
    before = await cluster.get("Pod", "default", "a")
    again = await cluster.bind("default", "a", uid, "gpu-2", {"mine": "2"})
    assert again.state is BindState.ALREADY
    assert again.node == "gpu-1"
    assert again.annotations["mine"] == "1"
    assert await cluster.get("Pod", "default", "a") == before


async def test_of_many_bindings_at_once_one_is_done(cluster: Any) -> None:
    uid = await created(cluster, "a")
    answers = await asyncio.gather(*(cluster.bind("default", "a", uid, f"gpu-{i}", {"by": str(i)}) for i in range(16)))
    (winner,) = [answer for answer in answers if answer.state is BindState.BOUND]
    read = await cluster.get("Pod", "default", "a")
    assert read["spec"]["nodeName"] == winner.node
    assert f"gpu-{read['metadata']['annotations']['by']}" == winner.node
    assert {answer.node for answer in answers} == {winner.node}


@pytest.mark.parametrize("there", [True, False], ids=["another-uid", "no-pod"])
async def test_a_pod_that_is_gone_is_not_bound(cluster: Any, there: bool) -> None:
    if there:
        await created(cluster, "a")
    assert (await cluster.bind("default", "a", "an-older-uid", "gpu-1", {})).state is BindState.GONE
    assert [one["spec"].get("nodeName") for one in await cluster.list("Pod")] == ([None] if there else [])


async def test_a_binding_that_expects_a_revision_is_done_at_this_revision_only(cluster: Any) -> None:
    uid = await created(cluster, "a")
    before = await revision_of(cluster, "a")
    await cluster.annotate("Pod", "default", "a", {"label": "x"})
    answer = await cluster.bind("default", "a", uid, "gpu-1", {"mine": "1"}, revision=before)
    assert (answer.state, answer.node) == (BindState.CHANGED, "")
    assert answer.annotations == {"user": "kept", "label": "x"}
    assert answer.revision == await revision_of(cluster, "a") != before
    again = await cluster.bind("default", "a", uid, "gpu-1", {"mine": "1"}, revision=answer.revision)
    assert again.state is BindState.BOUND
    late = await cluster.bind("default", "a", uid, "gpu-1", {"mine": "1"}, revision=before)
    assert (late.state, late.node) == (BindState.ALREADY, "gpu-1")


async def test_a_fence_stops_the_bindings_that_were_sent_before(cluster: Any) -> None:
    uid = await created(cluster, "a")
    before = await revision_of(cluster, "a")
    for claim in ("c1", "c2", "c1"):
        fenced = await cluster.fence("default", "a", uid, claim)
        assert fenced.node == ""
        assert fenced.revision == await revision_of(cluster, "a")
    assert fenced.annotations == {"user": "kept", FENCE: "c1,c2"}
    late = await cluster.bind("default", "a", uid, "gpu-1", {}, revision=before)
    assert late.state is BindState.CHANGED
    assert fenced_claims(late.annotations) == ("c1", "c2")


async def test_a_fence_is_not_written_on_a_bound_or_missing_pod(cluster: Any) -> None:
    uid = await created(cluster, "a")
    assert await cluster.fence("default", "b", uid, "c1") is None
    assert await cluster.fence("default", "a", "another", "c1") is None
    await cluster.bind("default", "a", uid, "gpu-1", {"mine": "1"})
    before = await revision_of(cluster, "a")
    fenced = await cluster.fence("default", "a", uid, "c1")
    assert (fenced.node, fenced.annotations["mine"], fenced.revision) == ("gpu-1", "1", before)


async def test_either_the_binding_or_the_fence_is_first(cluster: Any) -> None:
    for number in range(8):
        name = f"p{number}"
        uid = await created(cluster, name)
        expected = await revision_of(cluster, name)
        bound, fenced = await asyncio.gather(
            cluster.bind("default", name, uid, "gpu-1", {}, revision=expected),
            cluster.fence("default", name, uid, "c1"),
        )
        assert (bound.state is BindState.BOUND) == (fenced.node == "gpu-1")


async def test_a_pod_with_a_scheduling_gate_is_refused(cluster: Any) -> None:
    uid = await created(cluster, "a", schedulingGates=[{"name": "example.com/wait"}])
    answer = await cluster.bind("default", "a", uid, "gpu-1", {})
    assert answer.state is BindState.REFUSED
    assert answer.reason
