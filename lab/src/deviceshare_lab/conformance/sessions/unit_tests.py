"""Volcano's unit tests of actions and plugins, converted to sessions."""

import json
from collections import Counter
from typing import Any

from deviceshare.conf import EVALUATED_PLUGINS, PLUGINS
from deviceshare_cli.errors import CommandError

from deviceshare_lab.conformance.sessions.recorded import Answer, Cluster, Object, Placed, Session

_ACTIONS = frozenset({"enqueue", "allocate", "backfill", "reclaim", "preempt"})
"""Actions that placement runs, and actions that have no effect in a test without evictions."""
_PREFIXES = ("Enabled", "Enable")
_READY = {"type": "Ready", "status": "True"}


class UnitTest(Cluster, frozen=True, kw_only=True):
    """A test with its expected result: pods with nodes, or only their number, and phases of PodGroups.

    ``tiers`` are Volcano's ``conf.Tier``; a plugin function that is null is disabled.
    """

    name: str
    package: str
    actions: tuple[str, ...]
    tiers: tuple[dict[str, Any], ...] | None = ()
    binds: dict[str, str] | None = None
    bindsnum: int = 0
    status: dict[str, str] | None = None
    evictnum: int = 0
    hypernodes: int = 0
    claims: int = 0
    quotas: int = 0

    @property
    def id(self) -> str:
        """Names the test in reports."""
        return f"unit/{self.package}/{self.name}"

    @property
    def out_of_reach(self) -> str:
        """The feature that prevents a replay of the test, '' if there is none."""
        plugins = {plugin["Name"] for tier in self.tiers or () for plugin in tier["Plugins"]}
        needs = {
            "hypernodes": self.hypernodes,
            "evictions": self.evictnum,
            "resource claims": self.claims,
            "quotas": self.quotas,
            "shards of nodes": "sharding mode" in self.name,
            f"actions {', '.join(self.actions)}": set(self.actions) - _ACTIONS,
            f"plugins {', '.join(sorted(plugins - EVALUATED_PLUGINS))}": plugins - set(PLUGINS),
            "a configuration that Volcano refuses": any(map(_is_refused, self.tiers or ())),
            "sub-groups of a PodGroup": any("subGroupPolicy" in group["spec"] for group in self.podgroups or ()),
        }
        return next((need for need, needed in needs.items() if needed), "")

    def session(self) -> Session:
        """Return the test as a session of one run, with ready nodes and PodGroups with uids, as in a cluster."""
        binds = self.binds if self.binds or not self.bindsnum else {f"#{at}": "" for at in range(self.bindsnum)}
        tiers = [{"plugins": [_plugin(plugin) for plugin in tier["Plugins"]]} for tier in self.tiers or ()]
        return Session(
            id=self.id,
            conf=json.dumps({"actions": ", ".join(self.actions), "tiers": tiers}),
            nodes=tuple(map(_ready, self.nodes or ())),
            queues=self.queues or (),
            podgroups=tuple(map(_with_uid, self.podgroups or ())),
            pods=self.pods or (),
            priorityclasses=self.priorityclasses or (),
            volcano=Answer(
                placed=tuple(Placed(session=1, pod=pod, node=node) for pod, node in (binds or {}).items()),
                phases=self.status or {},
            ),
            from_unit_test=True,
        )


def session_of(test: UnitTest, where: str, out_of_reach: Counter[str]) -> Session | None:
    """Return the session of a test; None, and count it, if the test cannot be replayed.

    Raises:
        CommandError: the test has another form; ``where`` names its line.
    """
    try:
        need, session = test.out_of_reach, test.session()
    except (LookupError, TypeError, AttributeError) as error:
        raise CommandError(f"{where}: not a recorded unit test: {error!r}") from None
    if need:
        out_of_reach[need] += 1
        return None
    return session


def _plugin(option: dict[str, Any]) -> dict[str, Any]:
    plugin: dict[str, Any] = {"name": option["Name"], "arguments": option["Arguments"] or {}}
    for key, value in option.items():
        prefix = next((prefix for prefix in _PREFIXES if key.startswith(prefix)), "")
        if prefix:
            plugin[f"enable{key.removeprefix(prefix)}"] = bool(value)
    return plugin


def _is_refused(tier: dict[str, Any]) -> bool:
    plugins = {plugin["Name"]: plugin for plugin in tier["Plugins"]}
    return "proportion" in plugins and bool(plugins.get("drf", {}).get("EnabledHierarchy"))


def _ready(node: Object) -> Object:
    status = node["status"]
    return node | {"status": {"conditions": [_READY], **status}}


def _with_uid(group: Object) -> Object:
    metadata = group["metadata"]
    return group | {"metadata": {"uid": f"pg-{metadata['name']}", **metadata}}
