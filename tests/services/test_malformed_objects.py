"""Objects with fields of wrong types, written raw to a cluster: no service ends, and other objects are served."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from deviceshare.model import FENCE, VolumeBinding
from deviceshare.objects import KINDS as OF_INVENTORY
from deviceshare_binder.core.commands import (
    Annotate,
    BindPod,
    BindVolumes,
    FencePod,
    GroupCondition,
    LockNode,
    ReadPod,
    SetPodCondition,
    SetStatus,
)
from deviceshare_binder.core.events import ClusterFailed, decode_event
from deviceshare_binder.service import ClusterSide
from deviceshare_bus.web import ReviewError, User
from deviceshare_cluster.interface import Change, ChangeType, ClusterError
from deviceshare_cluster.kube.cluster import KubeCluster
from deviceshare_cluster.kube.reviewing import KubeReviewer
from deviceshare_localcluster import LocalCluster
from deviceshare_localcluster.kinds import KINDS, Key
from support.controlled import controlled
from support.inventory import node, started, work_off
from support.malformed import BROKEN, CLUSTER_SCOPED, OBJECTS, malformed, put_raw, valid
from support.waiting import until

Object = dict[str, Any]
AT = 1_800_000_000.0


@pytest.fixture
async def local(nats_url: str) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(nats_url) as cluster:
        await cluster.setup()
        yield cluster


def raw(obj: Object) -> bytes:
    return json.dumps(obj).encode()


def commands_about(kind: str) -> list[Any]:
    """Return the commands by which the binder reads and writes an object of this kind."""
    where = "" if kind in CLUSTER_SCOPED else "default"
    match kind:
        case "Pod":
            return [
                SetPodCondition(namespace=where, name="a", uid="u1", reason="r", message="m", at=AT),
                FencePod("c2", where, "a", "u1"),
                ReadPod("c1", where, "a", "u1"),
                Annotate(kind=kind, namespace=where, name="a", uid="u1", annotations={"x": "y"}),
                BindPod("c1", where, "a", "u1", "n1", {"x": "y"}, ""),
            ]
        case "Node":
            return [LockNode("c1", "a", "lock", "value", None)]
        case "PersistentVolume":
            return [BindVolumes("c1", (VolumeBinding("default/a", "u1", volume="a"),))]
        case "PersistentVolumeClaim":
            return [BindVolumes("c1", (VolumeBinding("default/a", "u1", node="n1"),))]
    condition = GroupCondition("Unschedulable", "r", "m")
    return [SetStatus(kind=kind, namespace=where, name="a", status=(("phase", "Inqueue"),), condition=condition, at=AT)]


BY_BINDER = ("Pod", "Node", "PodGroup", "Queue", "PersistentVolume", "PersistentVolumeClaim")


@pytest.mark.parametrize("kind", OF_INVENTORY)
def test_inventory_reads_malformed_objects_of_all_kinds(kind: str) -> None:
    driver, bus, _ = started([])
    where = "" if kind in CLUSTER_SCOPED else "default"
    everything = [*map(raw, malformed(kind)), *BROKEN]
    for number, data in enumerate(everything):
        driver.deliver([Change(ChangeType.APPLIED, kind, where, "a", number + 2, data)])
    work_off(driver, bus, node("valid", revision=len(everything) + 2))
    assert bus.fact("cluster.node.valid").name == "valid"


def test_inventory_reports_an_object_that_a_decoder_fails_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("deviceshare_inventory.core.fact_builder.decode_pod", failing)
    driver, bus, _ = started([])
    driver.deliver([Change(ChangeType.APPLIED, "Pod", "default", "a", 2, raw(valid("Pod"))), node(revision=3)])
    events = work_off(driver, bus)
    assert bus.fact("cluster.node.n1").name == "n1"
    assert ["ZeroDivisionError: a defect" in event.message for event in events] == [True]
    work_off(driver, bus, Change(ChangeType.APPLIED, "Pod", "default", "a", 4, raw(valid("Pod"))))
    (logged,) = [line for line in driver.logged if line.level == "error"]  # once
    assert "Pod default/a" in logged.message
    assert logged.message.rstrip().endswith("ZeroDivisionError: a defect")
    assert "in failing" in logged.message, "the traceback"


def stored(kind: str) -> Iterator[bytes]:
    """Yield what may be stored of an object; of those that are written for the binder every third one."""
    yield from list(map(raw, malformed(kind)))[::3]
    yield from BROKEN


@pytest.mark.parametrize("kind", BY_BINDER)
async def test_the_binder_answers_every_command_about_a_malformed_object(kind: str, local: LocalCluster) -> None:
    side = ClusterSide(local)
    subject = Key(kind, "" if kind in CLUSTER_SCOPED else "default", "a").subject
    for data in stored(kind):
        await put_raw(local, subject, data)
        for command in commands_about(kind):
            event = await side.perform(command)
            assert decode_event(msgspec.msgpack.encode(event)) == event, data
            if isinstance(event, ClusterFailed):
                assert " failed: " not in event.message, (data, event)
    await put_raw(local, subject, raw(valid(kind)))
    for command in commands_about(kind):
        assert not isinstance(await side.perform(command), ClusterFailed)


class Answering:
    """An API server that answers every request with the same bytes."""

    answer = b""

    async def request(self, *_: Any, **__: Any) -> bytes:
        return self.answer


async def test_the_binder_answers_a_command_that_fails_by_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(KubeCluster):
        async def get(self, *_: str) -> Object | None:
            raise ZeroDivisionError("a defect")

    (*_, read, _, _) = commands_about("Pod")
    event = await ClusterSide(Failing()).perform(read)
    assert isinstance(event, ClusterFailed)
    assert (event.command, event.final) == (read, True)
    assert event.message == "ReadPod failed: ZeroDivisionError: a defect"
    assert "Traceback" in caplog.text


async def test_a_pod_may_be_bound_although_its_binding_failed_by_a_defect() -> None:
    class Failing(KubeCluster):
        async def bind(self, *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("a defect")

    (binding,) = (command for command in commands_about("Pod") if isinstance(command, BindPod))
    event = await ClusterSide(Failing()).perform(binding)
    assert isinstance(event, ClusterFailed)
    assert not event.final


@pytest.mark.parametrize("kind", BY_BINDER)
async def test_the_binder_handles_malformed_answers_of_an_api_server(kind: str) -> None:
    cluster, server = KubeCluster(), Answering()
    cluster._api = server  # type: ignore[assignment]
    side = ClusterSide(cluster)
    for data in [*map(raw, malformed(kind)), *BROKEN]:
        server.answer = data
        for command in commands_about(kind):
            event = await side.perform(command)
            assert decode_event(msgspec.msgpack.encode(event)) == event, data
            if isinstance(event, ClusterFailed):
                assert " failed: " not in event.message, (data, event)


async def test_annotations_that_are_a_text_count_as_none(local: LocalCluster) -> None:
    """The binder ended on this pod again and again."""
    pod = valid("Pod")
    pod["metadata"]["annotations"] = "text"
    del pod["spec"]["schedulingGates"]
    await put_raw(local, Key("Pod", "default", "a").subject, raw(pod))
    state = await local.fence("default", "a", "u1", "c1")
    assert dict(state.annotations) == {FENCE: "c1"}
    bound = await local.bind("default", "a", "u1", "n1", {"x": "y"})
    assert (bound.node, dict(bound.annotations)) == ("n1", {FENCE: "c1", "x": "y"})


async def test_controllers_of_the_local_cluster_survive_malformed_objects(local: LocalCluster) -> None:
    async with controlled(local):
        for kind in OBJECTS:
            where = "" if kind in CLUSTER_SCOPED else "default"
            for number, data in enumerate(stored(kind)):
                await put_raw(local, Key(kind, where, f"a{number % 20}").subject, data)
        await put_raw(local, "object.Pod.incomplete", b"{}")
        replica_set = valid("ReplicaSet", "valid")
        del replica_set["metadata"]["ownerReferences"]
        await local.apply(replica_set)

        async def made() -> bool:
            names = [pod["metadata"]["name"] for pod in await local.list("Pod")]
            return any(name.startswith("valid-") for name in names)

        await until(made)


async def test_lists_omit_what_is_no_object(local: LocalCluster) -> None:
    for kind in sorted(OBJECTS.keys() & KINDS.keys()):
        where = "" if kind in CLUSTER_SCOPED else "default"
        for number, data in enumerate(BROKEN):
            await put_raw(local, Key(kind, where, f"b{number}").subject, data)
        await put_raw(local, Key(kind, where, "a").subject, raw(valid(kind)))
        assert "a" in [obj["metadata"]["name"] for obj in await local.list(kind)]
        assert (await local.revisions(kind)).found
        with pytest.raises(ClusterError):
            await local.get(kind, where, "b0")


@pytest.mark.parametrize("field", ["authenticated", "allowed"])
async def test_reviews_with_malformed_answers_are_errors(field: str) -> None:
    reviewer, server = KubeReviewer(), Answering()
    reviewer._api = server  # type: ignore[assignment]
    user = {"username": "u", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}}
    status: Object = {field: True} | ({"user": user} if field == "authenticated" else {})
    wrong = [raw({"status": status | {name: value}}) for name in status for value in ("text", 7, [], [None], {"a": 1})]
    wrong += [raw({"status": {field: True, "user": user | {name: 7}}}) for name in user]
    for data in [*wrong, *BROKEN]:
        server.answer = data
        try:
            await (reviewer.user("token") if field == "authenticated" else reviewer.may_get(User("u"), "/"))
        except ReviewError:
            continue
    server.answer = raw({"status": status})
    assert await (reviewer.user("token") if field == "authenticated" else reviewer.may_get(User("u"), "/"))
