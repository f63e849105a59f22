"""Detection of a settled system."""

from typing import Any

import msgspec
import pytest
from deviceshare_bus.messages.codec import Status
from deviceshare_cli.settled import COUNTED, SERVICES, ClusterState, Quiet, ServiceState, Snapshot, open_work, state_of
from deviceshare_cli.up import list_pods
from deviceshare_cluster.interface import ClusterError, Object
from hypothesis import given
from hypothesis import strategies as st

STREAMS = {stream.value: 10 for stream in COUNTED}


def done() -> Snapshot:
    services = {name: ServiceState(f"{name}-1", dict(STREAMS), 0, 7) for name in SERVICES}
    return Snapshot(services, dict(STREAMS), ClusterState(7, 9, 0, ()))


def with_service(name: str, **changes: object) -> Snapshot:
    snapshot = done()
    return msgspec.structs.replace(
        snapshot, services=snapshot.services | {name: msgspec.structs.replace(snapshot.services[name], **changes)}
    )


def with_cluster(**changes: object) -> Snapshot:
    snapshot = done()
    return msgspec.structs.replace(snapshot, cluster=msgspec.structs.replace(snapshot.cluster, **changes))


def test_a_settled_system_has_no_open_work() -> None:
    assert open_work(done()) == []


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (with_service("placement", open=3), "placement has 3 open items"),
        (with_service("binder", positions={"LEDGER": 9}), "binder has read LEDGER up to 9 of 10"),
        (with_service("inventory", revision=6), "inventory has read the cluster up to revision 6 of 7"),
        (with_cluster(controllers_open=2), "the cluster's controllers have 2 objects to process"),
        (with_cluster(unanswered=("default/a",)), "neither bound nor refused with a reason: default/a"),
        (
            with_cluster(unanswered=tuple(f"default/{name}" for name in "abcdefg")),
            "neither bound nor refused with a reason: default/a, default/b, default/c, default/d, default/e and 2 more",
        ),
    ],
)
def test_open_work_is_described(snapshot: Snapshot, says: str) -> None:
    assert open_work(snapshot) == [says]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_does_not_answer_is_open(name: str) -> None:
    snapshot = done()
    del snapshot.services[name]
    assert open_work(snapshot) == [f"{name} does not answer"]


def test_a_stream_that_does_not_answer_is_open() -> None:
    snapshot = done()
    del snapshot.streams["LEDGER"]
    assert open_work(snapshot) == ["stream LEDGER does not answer"]


def test_a_cluster_that_does_not_answer_is_open() -> None:
    assert open_work(msgspec.structs.replace(done(), cluster=None)) == ["the cluster does not answer"]


def test_events_are_not_counted() -> None:
    answer = Status(service="metrics", instance="metrics-1", positions={"EVENT": 5, "LEDGER": 10})
    assert state_of(answer).positions == {"LEDGER": 10}


def test_settled_after_a_second_without_change() -> None:
    quiet = Quiet(1.0)
    assert quiet.judge(done(), 5.0)
    assert quiet.judge(done(), 5.9)
    assert quiet.judge(done(), 6.0) == []


@pytest.mark.parametrize(
    "changed",
    [
        with_service("binder", instance="binder-2"),
        with_cluster(revision=6),
        with_cluster(sequence=10),
        msgspec.structs.replace(
            done(),
            streams=dict.fromkeys(STREAMS, 11),
            services={name: ServiceState(f"{name}-1", dict.fromkeys(STREAMS, 11), 0, 7) for name in SERVICES},
        ),
    ],
)
def test_a_change_restarts_the_second(changed: Snapshot) -> None:
    quiet = Quiet(1.0)
    quiet.judge(done(), 5.0)
    assert quiet.judge(changed, 5.5)
    assert quiet.judge(changed, 6.4)
    assert quiet.judge(changed, 6.5) == []


SNAPSHOTS = st.sampled_from(
    [done(), with_service("placement", open=1), with_cluster(revision=6), with_cluster(unanswered=("default/a",))]
)


@given(st.lists(st.tuples(SNAPSHOTS, st.floats(0.01, 0.7)), max_size=30))
def test_never_settled_within_a_second_of_a_change_or_with_anything_open(history: list[tuple[Snapshot, float]]) -> None:
    quiet = Quiet(1.0)
    now, changed, last = 0.0, 0.0, None
    for snapshot, step in history:
        now += step
        if snapshot != last:
            changed, last = now, snapshot
        settled = not quiet.judge(snapshot, now)
        assert settled == (not open_work(snapshot) and now - changed >= 1.0)


class Restarting:
    """A cluster that does not answer twice, then refuses once, then answers."""

    def __init__(self) -> None:
        self.answers = [ClusterError("not connected"), ClusterError("not connected"), ClusterError("no", final=True)]

    async def list(self, kind: str) -> list[Object]:
        if self.answers:
            raise self.answers.pop(0)
        return [{"kind": kind}]


async def test_pods_are_listed_again_while_the_cluster_does_not_answer() -> None:
    cluster: Any = Restarting()
    with pytest.raises(ClusterError, match="no"):
        await list_pods(cluster)
    assert not cluster.answers
    assert await list_pods(cluster) == [{"kind": "Pod"}]
