"""Further nodes like one of the cluster, and the ResourceSlices of their devices. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import NamedTuple

from deviceshare.model import HOSTNAME, NodeFact
from deviceshare_cluster.interface import Object
from msgspec.structs import replace

from deviceshare_cli.whatif.affected import check_known

_STATE = "node.kubernetes.io/"
"""Taints with this prefix say what state a node is in."""


class Addition(NamedTuple):
    """So many nodes like one of the cluster; none: the pods that wait are not what is asked about."""

    number: int = 0
    like: str = ""


def added_nodes(nodes: Mapping[str, NodeFact], addition: Addition) -> list[NodeFact]:
    """Return the further nodes: ready, their cards healthy and not cordoned, with the names of those of the model.

    Raises CommandError for an unknown node.
    """
    if not addition.number:
        return []
    check_known("--like", addition.like, nodes)
    names = (name for at in count(1) if (name := f"{addition.like}-added-{at}") not in nodes)
    return [_copy(nodes[addition.like], name) for name in islice(names, addition.number)]


def _copy(node: NodeFact, name: str) -> NodeFact:
    return replace(
        node,
        name=name,
        uid=name,
        ready=True,
        unschedulable=False,
        labels=node.labels | ({HOSTNAME: name} if HOSTNAME in node.labels else {}),
        taints=tuple(each for each in node.taints if not each.key.startswith(_STATE)),
        cards=tuple(replace(card, healthy=True, cordoned=False) for card in node.cards),
        cordons=(),
        locks=(),
        paused="",
    )


def slices_like(slices: Iterable[Object], like: str, names: Sequence[str]) -> Iterator[Object]:
    """Yield the ResourceSlices of further nodes: for each the pools that have devices of the node ``like`` alone.

    Devices that several nodes can use are there for the further nodes as for the others, by the labels of these.
    """
    by_pool: dict[tuple[str, str], list[Object]] = {}
    for each in slices:
        by_pool.setdefault((each["spec"]["driver"], each["spec"]["pool"]["name"]), []).append(each)
    for of_pool in by_pool.values():
        if any(_own(each["spec"], like) for each in of_pool):
            for name in names:
                yield from (_slice_copy(each, like, name) for each in of_pool)


def _own(spec: Object, node: str) -> list[Object]:
    """Return the devices of a slice, without status, that only a node can use."""
    each_says = spec.get("perDeviceNodeSelection")
    return [each for each in spec.get("devices") or () if (each if each_says else spec).get("nodeName") == node]


def _slice_copy(obj: Object, like: str, name: str) -> Object:
    """Return a slice with the devices of one node as one of another, in a pool of this one.

    A slice without such devices is copied too: it may have counters, and the pool tells how many slices it has.
    """
    spec = obj["spec"]
    pool = name if spec["pool"]["name"] == like else f"{spec['pool']['name']}/{name}"
    devices = [{**each, "nodeName": name} if "nodeName" in each else each for each in _own(spec, like)]
    where = {"nodeName": name} if "nodeName" in spec else {}
    copied = {**spec, **where, "pool": {**spec["pool"], "name": pool}, "devices": devices}
    return {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-{name}"}, "spec": copied}
