"""Deliberate differences from Volcano's sessions: each rule of ours, and how a replay goes without it.

Most rules have an argument of the plugin ``deviceshare`` that turns them off, so that a cluster can be migrated without
a change of order or shares. A rule about what a node may take is turned off by changing the recorded nodes instead.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml
from deviceshare.conf import STARVATION_SECONDS
from msgspec.structs import replace

from deviceshare_cli.conformance.sessions.recorded import Object, Session

_DEVICESHARE = "deviceshare"
_READY = {"type": "Ready", "status": "True"}


class Rule(msgspec.Struct, frozen=True):
    """A rule of ours; ``argument`` turns it off, '' where the recorded nodes are changed instead."""

    name: str
    text: str
    argument: str = ""


RULES = (
    Rule(
        "borrowing",
        "a queue may exceed what it deserves while no other queue waits for it within its own share",
        "deviceshare.BorrowingEnable",
    ),
    Rule("gangs", "gangs are whole although the plugin gang is not configured", "deviceshare.GangEnable"),
    Rule(
        "gang-retry",
        "a gang that does not fit in the order of its pods is tried with those first that its tasks need",
        "deviceshare.GangRetryEnable",
    ),
    Rule(
        "gang-backfill",
        "best-effort pods count for their gang where room is held for them, and take none before it is ready",
        "deviceshare.GangBackfillEnable",
    ),
    Rule("card-quotas", "queues count all memory and cores of the cards that pods get", "deviceshare.CardQuotaEnable"),
    Rule(
        "exact-shares",
        "shares by weight are exact, and guarantees never exceed the cluster",
        "deviceshare.ExactShareEnable",
    ),
    Rule("queue-state", "a queue that is not open serves no pod at all", "deviceshare.QueueStateEnable"),
    Rule(
        "parent-shares",
        "in a hierarchy of queues what one is given counts at once for the places of all others",
        "deviceshare.ParentShareEnable",
    ),
    Rule(
        "hierarchy-isolation",
        "what is wrong in a hierarchy of queues keeps only those concerned waiting",
        "deviceshare.HierarchyIsolationEnable",
    ),
    Rule(
        "spread-nodes",
        "the policy spread prefers the node with the fewest vGPUs",
        "deviceshare.SpreadNodesEnable",
    ),
    Rule("node-ready", "a node that is not ready takes no pod, also without a taint"),
)
"""In the order in which a replay tries to explain a difference without them."""


def without(session: Session, rules: Iterable[Rule]) -> Session:
    """Return a session as it goes without some of our rules.

    The guard against starvation is always off: a session takes no time.
    """
    arguments: dict[str, Any] = {STARVATION_SECONDS: 0}
    nodes = session.nodes
    for rule in rules:
        if rule.argument:
            arguments[rule.argument] = False
        else:
            nodes = tuple(map(_ready, nodes or ()))
    return replace(session, conf=_with_arguments(session.conf, arguments), nodes=nodes)


def _with_arguments(conf: str, arguments: dict[str, Any]) -> str:
    """Return a ``volcano-scheduler.conf`` with more arguments of the plugin ``deviceshare``.

    Text of another form is returned unchanged: its reader says what is wrong.
    """
    try:
        document = yaml.safe_load(conf)
        plugins = [plugin for tier in document["tiers"] for plugin in tier["plugins"] if plugin["name"] == _DEVICESHARE]
    except (yaml.YAMLError, LookupError, TypeError):
        return conf
    if not plugins:
        plugins = [{"name": _DEVICESHARE}]
        document["tiers"].append({"plugins": plugins})
    plugins[-1]["arguments"] = (plugins[-1].get("arguments") or {}) | arguments
    return json.dumps(document)


def _ready(node: Object) -> Object:
    status = node.get("status") or {}
    others = [each for each in status.get("conditions") or () if each.get("type") != _READY["type"]]
    return node | {"status": status | {"conditions": [*others, _READY]}}
