"""Further nodes like one of the cluster. Pure."""

from collections.abc import Mapping
from itertools import count, islice
from typing import NamedTuple

from deviceshare.model import HOSTNAME, NodeFact
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
