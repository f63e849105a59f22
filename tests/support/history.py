"""Checks a cluster at every moment: all watch events of pods in their order, and the accounts that bound.

It shares no code and no state with the scheduler. What it sees is a watch of its own; where that was interrupted, as by
a restart of the API server, it goes on from the list that follows. How often a pod was bound is in the audit log.
"""

import asyncio
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple, Self

from deviceshare_bus.wire.tasks import end
from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.pods import BoundPods
from deviceshare_lab.clusters.fields import group_of, name_of
from support.agents.api import Api

Object = dict[str, Any]

AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:deviceshare-system"]},
        {"level": "None"},
    ],
}
"""An audit policy: all bindings, and all that our services ask."""


class Asked(NamedTuple):
    """A request of the audit log."""

    user: str
    verb: str
    what: str
    """Resource and subresource, namespace and name."""
    code: int
    at: str
    """RFC 3339."""


def audit_options(directory: Path) -> tuple[str, ...]:
    """Return the options of an API server that audits by :data:`AUDIT` into a directory."""
    (directory / "audit.json").write_text(json.dumps(AUDIT))
    return f"--audit-policy-file={directory / 'audit.json'}", f"--audit-log-path={directory / 'audit.log'}"


def asked(directory: Path) -> list[Asked]:
    """Return all that was asked and audited."""
    found = []
    for path in sorted(directory.glob("audit*.log")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            at = event.get("objectRef", {})
            what = "/".join(filter(None, (at.get("resource", ""), at.get("subresource", ""))))
            where = "/".join(filter(None, (at.get("namespace", ""), at.get("name", ""))))
            user = event.get("impersonatedUser", event["user"])["username"]
            code = event.get("responseStatus", {}).get("code", 0)
            found.append(Asked(user, event["verb"], f"{what} {where}", code, event["stageTimestamp"]))
    return found


class History:
    """Follows pods, and writes down in ``wrong`` what must not be. Use as an async context manager.

    At no moment has a card more to give than it has; a pod is bound once, and keeps the node and the devices with which
    it was bound for as long as it lives; a gang of which a pod is bound is soon whole (:meth:`torn`).
    """

    def __init__(self, api: Api, parts: Parts) -> None:
        self.wrong: list[str] = []
        self.gaps = -1
        """How often the watch was interrupted: what happened meanwhile is known by its outcome alone."""
        self._api = api
        self._nodes: dict[str, Object] = {}
        self._pods = BoundPods(lambda rule, text: self.wrong.append(text), self._nodes.get, parts)
        self._gangs: defaultdict[str, list[float]] = defaultdict(list)
        """When their pods were bound."""
        self._minimum: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *error: object) -> None:
        await end(self._task)

    def gang(self, group: Object) -> None:
        """Learn of a gang."""
        self._minimum[name_of(group)] = group["spec"]["minMember"]

    @property
    def bindings(self) -> int:
        """How many bindings were seen."""
        return self._pods.count

    def torn(self) -> dict[str, float]:
        """Return how many seconds each gang was bound in part; for ever, where it was never whole."""
        return {
            gang: sorted(times)[least - 1] - min(times) if len(times) >= least else float("inf")
            for gang, least in self._minimum.items()
            if (times := self._gangs.get(gang))
        }

    async def _follow(self) -> None:
        try:
            async for kind, pod in self._api.follow("/api/v1/pods"):
                if kind == "LISTED":
                    self.gaps += 1
                    there = {one["metadata"]["uid"] for one in pod["items"]}
                    for known in self._pods.holding():
                        if known["metadata"]["uid"] not in there:
                            self._pods.drop(known)
                elif kind == "DELETED":
                    self._pods.drop(pod)
                elif pod["spec"].get("nodeName"):
                    await self._see(pod)
        except Exception as error:  # it must not end unseen
            self.wrong.append(f"the judge broke: {error!r}")
            raise

    async def _see(self, pod: Object) -> None:
        node = pod["spec"]["nodeName"]
        if node not in self._nodes:
            self._nodes[node] = await self._api.request("GET", f"/api/v1/nodes/{node}")
        if self._pods.take(pod):
            if group := group_of(pod):
                self._gangs[group].append(asyncio.get_running_loop().time())
            self._pods.check_cards(node)


def bound_more_than_once(requests: list[Asked]) -> list[str]:
    """Return the pods that were bound several times, by what the API server answered."""
    times = Counter(one.what for one in requests if one.what.startswith("pods/binding ") and one.code < 300)
    return [f"{what}: {count} times" for what, count in times.items() if count > 1]
