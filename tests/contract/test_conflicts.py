"""Read-modify-write: conflicts are retried with pauses, a limited number of times."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from deviceshare_cluster import conflicts
from deviceshare_cluster.conflicts import TRIES, VersionConflict, update_with_retry
from deviceshare_cluster.interface import ClusterError, EventRecord
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.client import ApiRefusal


class Contested:
    """An object that others change ``times`` times between a read and the write after it."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.version = 1
        self.reads = 0
        self.written: list[int] = []

    async def get(self) -> int | None:
        self.reads += 1
        return self.version

    async def put(self, version: int) -> None:
        if self.times:
            self.times -= 1
            self.version += 1
            raise VersionConflict
        self.written.append(version)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Gives the pauses that were made, which take no time here."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr(conflicts.asyncio, "sleep", note)
    return found


async def test_after_a_conflict_the_object_is_read_again(pauses: list[float]) -> None:
    contested = Contested(2)
    assert await update_with_retry("it", contested.get, lambda version: version, contested.put)
    assert contested.written == [3]
    assert len(pauses) == 2
    assert 0 < pauses[0] < 2 * conflicts.RETRY.first * 1.01


async def test_nothing_is_written_where_nothing_is_to_change_or_there_is_nothing(pauses: list[float]) -> None:
    async def nothing() -> None:
        return None

    contested = Contested(0)
    assert not await update_with_retry("it", contested.get, lambda _: None, contested.put)
    assert not await update_with_retry("it", nothing, lambda _: 1, contested.put)
    assert contested.written == []


async def test_conflicts_without_end_are_an_error(pauses: list[float]) -> None:
    contested = Contested(10**9)
    with pytest.raises(ClusterError, match=f"cannot write it: it was changed by others during {TRIES} attempts"):
        await update_with_retry("it", contested.get, lambda version: version, contested.put)
    assert contested.reads == TRIES
    assert len(pauses) == TRIES - 1


POD = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": {}, "status": {}}


class Refusing(KubeCluster):
    """A cluster whose API server answers every write with 409."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self._api = self  # type: ignore[assignment]

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        return deepcopy(POD)

    async def request(self, *_: object, **__: object) -> bytes:
        self.writes += 1
        raise ApiRefusal(409, "Conflict", "the object has been modified")


EVENT = EventRecord("Pod", "ns", "p", "u", True, "FailedScheduling", "no room", 0.0)


@pytest.mark.parametrize(
    ("what", "write"),
    [
        ("annotations", lambda to: to.annotate("Pod", "ns", "p", {"a": "b"})),
        (
            "condition",
            lambda to: to.set_pod_condition("ns", "p", "u", status=False, reason="r", message="m", at=0.0),
        ),
        ("status", lambda to: to.set_status("Pod", "ns", "p", "u", {"phase": "Running"}, condition=None, at=0.0)),
        ("count of an Event", lambda to: to.record_event(EVENT)),
    ],
)
async def test_no_write_to_kubernetes_loops_for_ever_on_409(pauses: list[float], what: str, write: Any) -> None:
    cluster = Refusing()
    with pytest.raises(ClusterError, match=f"cannot write the {what}"):
        await write(cluster)
    assert cluster.writes == TRIES + (what == "count of an Event")
