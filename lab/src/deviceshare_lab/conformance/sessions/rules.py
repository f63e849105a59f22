"""Deliberate differences from Volcano's sessions: our rules, and how a replay disables them.

An argument of the plugin ``deviceshare`` disables most rules, for a migration without a change of order or shares. A
rule about the feasibility of nodes is disabled by changing the nodes instead.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
import yaml
from deviceshare.conf import STARVATION_SECONDS
from msgspec.structs import replace

from deviceshare_lab.conformance.sessions.facts import SessionFacts

_DEVICESHARE = "deviceshare"


class Rule(msgspec.Struct, frozen=True):
    """A rule; ``argument`` disables it, '' if the nodes are changed instead."""

    name: str
    text: str
    argument: str = ""


RULES = (
    Rule(
        "borrowing",
        "a queue may exceed its deserved amount while no other queue waits within its own share",
        "deviceshare.BorrowingEnable",
    ),
    Rule("gangs", "gangs start as a whole even without the plugin gang", "deviceshare.GangEnable"),
    Rule(
        "gang-retry",
        "a gang that does not fit in the order of its pods is retried with the minimum of its tasks first",
        "deviceshare.GangRetryEnable",
    ),
    Rule(
        "gang-backfill",
        "best-effort pods count for their gang if room is reserved for them, and take no room before it is ready",
        "deviceshare.GangBackfillEnable",
    ),
    Rule(
        "promise-return",
        "a group that cannot start gives back what its queue promised it",
        "deviceshare.PromiseReturnEnable",
    ),
    Rule(
        "card-quotas", "queues are charged memory and cores of the cards that pods get", "deviceshare.CardQuotaEnable"
    ),
    Rule(
        "exact-shares",
        "shares by weight are exact, and guarantees never exceed the cluster",
        "deviceshare.ExactShareEnable",
    ),
    Rule("queue-state", "a queue that is not open serves no pod at all", "deviceshare.QueueStateEnable"),
    Rule(
        "parent-shares",
        "in a hierarchy of queues each allocation updates the order of all other queues at once",
        "deviceshare.ParentShareEnable",
    ),
    Rule(
        "hierarchy-isolation",
        "an error in a hierarchy of queues blocks only the affected queues",
        "deviceshare.HierarchyIsolationEnable",
    ),
    Rule(
        "spread-nodes",
        "the policy spread prefers the node with the fewest vGPUs",
        "deviceshare.SpreadNodesEnable",
    ),
    Rule("node-ready", "a node that is not ready gets no pod, even without a taint"),
)
"""All rules, in the order in which a replay disables them to explain a difference."""


def without(facts: SessionFacts, rules: Iterable[Rule]) -> SessionFacts:
    """Return the facts of a session with rules disabled.

    The guard against starvation is always disabled: a session takes no time.
    """
    arguments: dict[str, Any] = {STARVATION_SECONDS: 0}
    nodes = facts.nodes
    for rule in rules:
        if rule.argument:
            arguments[rule.argument] = False
        else:
            nodes = tuple(replace(node, ready=True) for node in nodes)
    return replace(facts, conf=with_arguments(facts.conf, arguments), nodes=nodes)


def with_arguments(conf: str, arguments: dict[str, Any]) -> str:
    """Return a ``volcano-scheduler.conf`` with more arguments of the plugin ``deviceshare``.

    Text of another form is returned unchanged: the parser reports the error.
    """
    try:
        document = json.loads(_as_json(conf))
        plugins = [plugin for tier in document["tiers"] for plugin in tier["plugins"] if plugin["name"] == _DEVICESHARE]
    except (yaml.YAMLError, LookupError, TypeError):
        return conf
    if not plugins:
        plugins = [{"name": _DEVICESHARE}]
        document["tiers"].append({"plugins": plugins})
    plugins[-1]["arguments"] = (plugins[-1].get("arguments") or {}) | arguments
    return json.dumps(document)


@lru_cache(maxsize=1)
def _as_json(conf: str) -> str:
    """Return a configuration as JSON, which is read in a fraction of the time of YAML."""
    return json.dumps(yaml.safe_load(conf))
