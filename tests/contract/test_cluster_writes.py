"""The contract of every cluster: conditions, Events, annotations and statuses are written."""

import asyncio
from typing import Any

from deviceshare.model import visible
from deviceshare_cluster.interface import BindState, EventRecord
from support.contract import created, node, pod, revision_of
from support.hostile_texts import TEXT, harmless
from support.manifest import manifest

AT = 1_700_000_000.0
AT_TEXT = "2023-11-14T22:13:20Z"


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
        state = await cluster.set_pod_condition(
            "default", "a", uid, status=False, reason="Unschedulable", message="0/3 nodes", at=at
        )
        assert state == ("", {"user": "kept"}, await revision_of(cluster, "a"))
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
    assert events["x"]["metadata"]["creationTimestamp"]
    assert events["x"]["lastTimestamp"] == "2023-11-14T22:14:20Z"


async def test_texts_of_users_are_written_without_escapes_for_terminals(cluster: Any, volcano_kinds: None) -> None:
    uid = await created(cluster, "a")
    await cluster.set_pod_condition("default", "a", uid, status=False, reason="R", message=TEXT, at=AT)
    for _ in range(2):
        await cluster.record_event(EventRecord("Pod", "default", "a", uid, True, "FailedScheduling", TEXT, AT))
    kind, version = "PodGroup", "scheduling.volcano.sh/v1beta1"
    await cluster.create({"apiVersion": version, "kind": kind, "metadata": {"name": "g", "namespace": "default"}})
    group = (await cluster.get(kind, "default", "g"))["metadata"]["uid"]
    condition = {"type": "Unschedulable", "reason": "R", "message": TEXT}
    await cluster.set_status(kind, "default", "g", group, {}, condition=condition, at=AT)
    (event,) = await cluster.list("Event")
    of_pod, of_group = [
        (await cluster.get(each, "default", name))["status"]["conditions"][-1]["message"]
        for each, name in (("Pod", "a"), (kind, "g"))
    ]
    assert (event["message"], event["count"]) == (visible(TEXT), 2)
    assert (of_pod, of_group) == (visible(TEXT), visible(TEXT))
    harmless(of_pod)


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
    assert (first["lock"], first["kept"]) == ("a", "1")
    second = await cluster.annotate("Node", "", "gpu-1", {"lock": "b"}, expected={"lock": None})
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
    group = manifest("PodGroup", {"name": "g", "namespace": "default"}, spec={"minMember": 2, "queue": "q"})
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
