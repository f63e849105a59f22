"""A cluster in a dry run is read as it is, and nothing is written to it, whatever is asked."""

import inspect
from typing import Any

import pytest
from deviceshare_cluster.dry_run import DryRunCluster
from deviceshare_cluster.eviction import EvictState
from deviceshare_cluster.interface import BindState, Change, Cluster, EventRecord
from deviceshare_lab.clusters import objects

READS = {"__aenter__", "__aexit__", "watch", "list", "revisions", "get"}
WRITES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "ensure": ((objects.node("other", {}),), {}),
    "bind": (("default", "a", "UID", "n1", {"x": "y"}), {}),
    "fence": (("default", "a", "UID", "claim"), {}),
    "evict": (("default", "a", "UID"), {}),
    "nominate": (("default", "a", "UID", "n1"), {}),
    "annotate": (("Pod", "default", "a", {"x": "y"}), {}),
    "reserve_volume": (("pv", "default", "pvc", "UID"), {}),
    "allocate_claim": (("default", "gpu", "UID", {"devices": {}}, ("a", "UID")), {}),
    "release_claim": (("default", "gpu", "UID", None, ("a", "UID")), {}),
    "select_node": (("default", "pvc", "UID", "n1"), {}),
    "set_pod_condition": (("default", "a", "UID"), {"status": False, "reason": "R", "message": "m", "at": 1.0}),
    "set_status": (("Pod", "default", "a", "UID", {"phase": "Failed"}), {"condition": None, "at": 1.0}),
    "record_event": ((EventRecord("Pod", "default", "a", "UID", False, "R", "m", 1.0),), {}),
}
KINDS = ("Node", "Pod", "Event")


def test_each_function_of_the_interface_reads_or_is_tried_here() -> None:
    functions = {name for name, _ in inspect.getmembers(Cluster, inspect.isfunction) if not name.startswith("_")}
    assert functions == WRITES.keys() | (READS - {"__aenter__", "__aexit__"})
    own = {name for name in functions if name in vars(DryRunCluster)}
    assert own == functions, "none is inherited"


async def test_nothing_is_written(cluster: Any) -> None:
    await cluster.create(objects.node("n1", {"cpu": "4"}))
    await cluster.create(objects.pod("a", {}))
    uid = (await cluster.get("Pod", "default", "a"))["metadata"]["uid"]
    before = {kind: await cluster.list(kind) for kind in KINDS}
    dry = DryRunCluster(cluster)
    for name, (arguments, options) in WRITES.items():
        answer = await getattr(dry, name)(*(uid if each == "UID" else each for each in arguments), **options)
        match name:
            case "bind":
                assert answer.state is BindState.REFUSED
            case "evict":
                assert answer.state is EvictState.FORBIDDEN
            case "fence":
                assert (answer.node, answer.revision) == ("", before["Pod"][0]["metadata"]["resourceVersion"])
            case _:
                assert answer is None, name
    assert {kind: await dry.list(kind) for kind in KINDS} == before


async def test_it_is_read_as_it_is(cluster: Any) -> None:
    await cluster.create(objects.pod("a", {}))
    dry = DryRunCluster(cluster)
    pod = await cluster.get("Pod", "default", "a")
    assert await dry.get("Pod", "default", "a") == pod
    assert (await dry.revisions("Pod")).found == (await cluster.revisions("Pod")).found
    batch = await anext(dry.watch(("Pod",)))
    assert [each.name for each in batch if isinstance(each, Change)] == ["a"]


@pytest.mark.parametrize("uid", ["another", ""])
async def test_a_pod_with_another_uid_is_not_read_as_the_one_that_is_fenced(cluster: Any, uid: str) -> None:
    await cluster.create(objects.pod("a", {}))
    assert await DryRunCluster(cluster).fence("default", "a", uid, "claim") is None
