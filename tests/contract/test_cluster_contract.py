"""The contract of every cluster: list, watch, bind and write."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from deviceshare_cluster.interface import BindState, Change, ChangeType, ClusterError, EventRecord, Listed

AT = 1_700_000_000.0
AT_TEXT = "2023-11-14T22:13:20Z"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"user": "kept"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}}


async def created(cluster: Any, name: str, **spec: Any) -> str:
    """Create a pod and return its uid."""
    await cluster.create(pod(name, **spec))
    return str((await cluster.get("Pod", "default", name))["metadata"]["uid"])


async def until(watch: AsyncIterator[list[Change | Listed]], last: Any) -> list[Change | Listed]:
    """Read a watch until an item satisfies ``last``."""
    seen: list[Change | Listed] = []
    async with asyncio.timeout(20):
        async for batch in watch:
            for item in batch:
                seen.append(item)
                if last(item):
                    return seen
    raise AssertionError("a watch never ends")


def listed(item: Change | Listed) -> bool:
    return isinstance(item, Listed)


async def test_a_created_object_can_be_read(cluster: Any) -> None:
    uid = await created(cluster, "a")
    assert uid
    assert await cluster.get("Pod", "default", "b") is None
    assert await cluster.get("Pod", "other", "a") is None
    assert [one["metadata"]["name"] for one in await cluster.list("Pod")] == ["a"]
    assert await cluster.list("Node") == []


async def test_revisions_identify_objects_and_their_versions(cluster: Any) -> None:
    await created(cluster, "a")
    await created(cluster, "b")
    await cluster.create(node("n1"))
    await cluster.delete("Pod", "default", "b")
    there = await cluster.get("Pod", "default", "a")
    async with asyncio.timeout(20):  # it may be a moment ago
        while set((revisions := await cluster.revisions("Pod")).found) != {("default", "a")}:
            await asyncio.sleep(0.05)
    assert revisions.found["default", "a"] == int(there["metadata"]["resourceVersion"])
    assert revisions.at > revisions.found["default", "a"]
    assert set((await cluster.revisions("Node")).found) == {("", "n1")}


async def test_an_object_has_the_defaults_of_the_api_server(cluster: Any) -> None:
    await created(cluster, "a")
    read = await cluster.get("Pod", "default", "a")
    assert read["apiVersion"] == "v1"
    assert read["kind"] == "Pod"
    assert read["metadata"]["creationTimestamp"].endswith("Z")
    assert int(read["metadata"]["resourceVersion"]) > 0
    assert read["spec"]["restartPolicy"] == "Always"
    assert read["spec"]["priority"] == 0
    assert read["status"]["phase"] == "Pending"


async def test_a_watch_lists_reports_the_end_of_the_list_and_follows(cluster: Any) -> None:
    await created(cluster, "a")
    await cluster.create(node("gpu-1.example.com"))
    watch = cluster.watch(["Pod", "Node"])
    first = await until(watch, listed)
    names = {(item.kind, item.namespace, item.name) for item in first if isinstance(item, Change)}
    assert names == {("Pod", "default", "a"), ("Node", "", "gpu-1.example.com")}
    assert isinstance(first[-1], Listed)
    assert first[-1].revision >= max(item.revision for item in first if isinstance(item, Change))

    await created(cluster, "b")
    (change,) = await until(watch, lambda item: item.name == "b")
    assert isinstance(change, Change)
    assert change.type is ChangeType.APPLIED
    raw = json.loads(change.raw)
    assert raw == await cluster.get("Pod", "default", "b")
    assert raw["metadata"]["resourceVersion"] == str(change.revision)
    await watch.aclose()


async def test_an_empty_cluster_is_listed_too(cluster: Any) -> None:
    watch = cluster.watch(["Pod"])
    assert [type(item) for item in await until(watch, listed)] == [Listed]
    await watch.aclose()


async def test_other_kinds_are_not_delivered(cluster: Any) -> None:
    watch = cluster.watch(["Pod"])
    await cluster.create(node("n"))
    await created(cluster, "a")
    seen = await until(watch, lambda item: isinstance(item, Change) and item.name == "a")
    assert {item.kind for item in seen if isinstance(item, Change)} == {"Pod"}
    await watch.aclose()


async def test_a_deletion_is_seen_and_the_name_can_be_used_again(cluster: Any) -> None:
    old = await created(cluster, "a")
    watch = cluster.watch(["Pod"])
    await until(watch, listed)
    await cluster.delete("Pod", "default", "a")
    # A cluster may show that it is terminating before it is gone.
    gone = (await until(watch, lambda item: isinstance(item, Change) and item.type is ChangeType.DELETED))[-1]
    assert isinstance(gone, Change)
    assert (gone.namespace, gone.name) == ("default", "a")
    assert await cluster.get("Pod", "default", "a") is None
    assert await cluster.list("Pod") == []

    new = await created(cluster, "a")
    again = (await until(watch, lambda item: isinstance(item, Change)))[-1]
    assert isinstance(again, Change)
    assert again.type is ChangeType.APPLIED
    assert again.revision > gone.revision
    assert json.loads(again.raw)["metadata"]["uid"] == new != old
    await watch.aclose()


async def test_deleted_objects_are_not_listed(cluster: Any) -> None:
    await created(cluster, "a")
    await created(cluster, "b")
    await cluster.delete("Pod", "default", "a")
    watch = cluster.watch(["Pod"])
    seen = await until(watch, listed)
    alive = [item.name for item in seen if isinstance(item, Change) and item.type is ChangeType.APPLIED]
    assert alive == ["b"]
    await watch.aclose()


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


async def test_a_pod_with_a_scheduling_gate_is_refused(cluster: Any) -> None:
    uid = await created(cluster, "a", schedulingGates=[{"name": "example.com/wait"}])
    answer = await cluster.bind("default", "a", uid, "gpu-1", {})
    assert answer.state is BindState.REFUSED
    assert answer.reason


async def test_a_condition_leaves_the_conditions_of_others(cluster: Any) -> None:
    await cluster.create(pod("a") | {"status": {"conditions": [{"type": "example.com/other", "status": "True"}]}})
    uid = (await cluster.get("Pod", "default", "a"))["metadata"]["uid"]
    for reason in ("Unschedulable", "SchedulerError"):
        await cluster.set_pod_condition("default", "a", uid, status=False, reason=reason, message="", at=AT)
    found = (await cluster.get("Pod", "default", "a"))["status"]["conditions"]
    assert {one["type"]: one.get("reason") for one in found} == {
        "example.com/other": None,
        "PodScheduled": "SchedulerError",
    }


async def test_a_condition_is_written_once(cluster: Any) -> None:
    uid = await created(cluster, "a")
    for at in (AT, AT + 60):
        await cluster.set_pod_condition(
            "default", "a", uid, status=False, reason="Unschedulable", message="0/3 nodes", at=at
        )
    read = await cluster.get("Pod", "default", "a")
    (condition,) = read["status"]["conditions"]
    condition.pop("lastProbeTime", None)  # null on a real API server
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes",
        "lastTransitionTime": AT_TEXT,
    }
    revision = read["metadata"]["resourceVersion"]
    await cluster.set_pod_condition(
        "default", "a", uid, status=False, reason="Unschedulable", message="0/3 nodes", at=AT + 99
    )
    assert (await cluster.get("Pod", "default", "a"))["metadata"]["resourceVersion"] == revision


async def test_a_condition_of_a_bound_or_missing_pod_is_not_written(cluster: Any) -> None:
    uid = await created(cluster, "a")
    await cluster.bind("default", "a", uid, "gpu-1", {})
    before = await cluster.get("Pod", "default", "a")
    for name, who in (("a", uid), ("a", "other"), ("b", uid)):
        await cluster.set_pod_condition("default", name, who, status=False, reason="No", message="no", at=AT)
    assert await cluster.get("Pod", "default", "a") == before
    assert len(await cluster.list("Pod")) == 1


async def test_the_same_event_is_counted(cluster: Any) -> None:
    for message, at in (("x", AT), ("y", AT), ("x", AT + 60)):
        await cluster.record_event(EventRecord("Pod", "default", "a", "u", True, "FailedScheduling", message, at))
    events = {event["message"]: event for event in await cluster.list("Event")}
    assert {message: event["count"] for message, event in events.items()} == {"x": 2, "y": 1}
    assert events["x"]["type"] == "Warning"
    assert events["x"]["reason"] == "FailedScheduling"
    assert events["x"]["involvedObject"]["name"] == "a"
    assert events["x"]["firstTimestamp"] == AT_TEXT
    assert events["x"]["lastTimestamp"] == "2023-11-14T22:14:20Z"


async def test_an_event_that_happens_once_is_counted_once(cluster: Any) -> None:
    for _ in range(2):
        await cluster.record_event(EventRecord("Pod", "default", "a", "u", False, "Scheduled", "x", AT, once=True))
    assert [event["count"] for event in await cluster.list("Event")] == [1]


async def test_writers_at_the_same_time_lose_nothing(cluster: Any) -> None:
    names = [f"p{i}" for i in range(40)]
    uids = await asyncio.gather(*(created(cluster, name) for name in names))
    conditions = [
        cluster.set_pod_condition("default", name, uid, status=False, reason="R", message=str(turn), at=AT)
        for name, uid in zip(names, uids, strict=True)
        for turn in range(3)
    ]
    bindings = [
        cluster.bind("default", name, uid, "gpu-1", {"claim": uid}) for name, uid in zip(names, uids, strict=True)
    ]
    answers = (await asyncio.gather(*conditions, *bindings))[len(conditions) :]
    assert {answer.state for answer in answers} == {BindState.BOUND}
    for read in await cluster.list("Pod"):
        assert read["spec"]["nodeName"] == "gpu-1"
        assert read["metadata"]["annotations"]["claim"] == read["metadata"]["uid"]
        assert [one["status"] for one in read["status"]["conditions"]] == ["True"]


async def test_annotations_are_merged_if_the_expected_values_match(cluster: Any) -> None:
    await cluster.create(node("gpu-1"))
    first = await cluster.annotate("Node", "", "gpu-1", {"lock": "a", "kept": "1"}, expected={"lock": None})
    assert first is not None
    assert (first["lock"], first["kept"]) == ("a", "1")
    second = await cluster.annotate("Node", "", "gpu-1", {"lock": "b"}, expected={"lock": None})
    assert second is not None
    assert second["lock"] == "a", "the answer holds the present value, which stays"
    third = await cluster.annotate("Node", "", "gpu-1", {"lock": None}, expected={"lock": "a"})
    assert third is not None
    assert "lock" not in third
    assert (await cluster.get("Node", "", "gpu-1"))["metadata"]["annotations"]["kept"] == "1"
    assert await cluster.annotate("Node", "", "gone", {"lock": "a"}) is None


async def test_annotations_are_written_only_to_the_pod_with_the_uid(cluster: Any) -> None:
    uid = await created(cluster, "a")
    assert await cluster.annotate("Pod", "default", "a", {"mine": "1"}, uid="another") is None
    assert await cluster.annotate("Pod", "default", "a", {"mine": "1"}, uid=uid) == {"user": "kept", "mine": "1"}
    assert (await cluster.get("Pod", "default", "a"))["metadata"]["annotations"] == {"user": "kept", "mine": "1"}


async def test_of_many_who_expect_the_same_one_annotates(cluster: Any) -> None:
    await cluster.create(node("gpu-1"))
    tries = [cluster.annotate("Node", "", "gpu-1", {"lock": str(i)}, expected={"lock": None}) for i in range(8)]
    stood = {answer["lock"] for answer in await asyncio.gather(*tries)}
    assert len(stood) == 1


async def test_a_status_is_written_if_it_differs(cluster: Any, volcano_kinds: None) -> None:
    await cluster.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}})
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "q"},
    }
    await cluster.create(group)
    waits = {"type": "Unschedulable", "reason": "NotEnoughResources", "message": "why"}
    scheduled = {"type": "Scheduled", "reason": "tasks in gang are ready to be scheduled", "message": ""}
    for running, condition in ((0, waits), (0, waits), (2, scheduled)):
        fields = {"phase": "Running" if running else "Inqueue", "running": running}
        await cluster.set_status("PodGroup", "default", "g", "", fields, condition=condition, at=AT + running)
    read = await cluster.get("PodGroup", "default", "g")
    assert (read["status"]["phase"], read["status"]["running"]) == ("Running", 2)
    conditions = {one["type"]: one for one in read["status"]["conditions"]}
    assert conditions.keys() == {"Unschedulable", "Scheduled"}
    assert conditions["Unschedulable"]["lastTransitionTime"] == AT_TEXT
    assert read["spec"]["minMember"] == 2
    await cluster.set_status(
        "PodGroup", "default", "g", "", {"running": 2}, condition={**waits, "message": "why"}, at=AT + 9
    )
    assert await cluster.get("PodGroup", "default", "g") == read, "nothing that is said already is written"
    await cluster.set_status("PodGroup", "default", "g", "another", {"running": 9}, condition=None, at=AT)
    await cluster.set_status("PodGroup", "default", "gone", "", {"running": 9}, condition=None, at=AT)
    assert await cluster.get("PodGroup", "default", "g") == read
    await cluster.set_status("Queue", "", "q", "", {"running": 1}, condition=None, at=AT)
    assert (await cluster.get("Queue", "", "q"))["status"]["running"] == 1
    for allocated in ({"cpu": "1", "pods": "2"}, {"cpu": "250m"}, {"cpu": "250m"}, {}):
        await cluster.set_status("Queue", "", "q", "", {"allocated": allocated}, condition=None, at=AT)
        status = (await cluster.get("Queue", "", "q"))["status"]
        assert (status["allocated"], status["running"]) == (allocated, 1), "a mapping replaces the previous one"
    for kind, namespace, name in (("PodGroup", "default", "g"), ("Queue", "", "q")):
        await cluster.delete(kind, namespace, name)


async def test_an_object_is_created_unless_it_exists(cluster: Any, volcano_kinds: None) -> None:
    def queue(weight: int) -> dict[str, Any]:
        metadata = {"name": "ensured"}
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": metadata,
            "spec": {"weight": weight},
        }

    await cluster.ensure(queue(3))
    made = await cluster.get("Queue", "", "ensured")
    assert made["spec"]["weight"] == 3
    await cluster.ensure(queue(5))
    assert await cluster.get("Queue", "", "ensured") == made
    await cluster.delete("Queue", "", "ensured")


async def test_a_refused_creation_raises_a_final_error(cluster: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no-containers", "namespace": "default"}, "spec": {}}
    with pytest.raises(ClusterError, match="no-containers") as raised:
        await cluster.ensure(pod)
    assert raised.value.final
