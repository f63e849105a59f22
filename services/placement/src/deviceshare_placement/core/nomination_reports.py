"""What is reported of nominated pods: where they will go, and for which pods they wait."""

from datetime import UTC, datetime

from deviceshare.families import placed_on
from deviceshare.model import Now, shortened
from deviceshare.scheduler import Nomination, Scheduler
from deviceshare_bus.cores.core import Command, RecordStep

from deviceshare_placement.core import publishing
from deviceshare_placement.core.nominations import Nominations


class NominationReports:
    """Reports the nominations of this replica whenever something has changed."""

    def __init__(self, scheduler: Scheduler, nominations: Nominations) -> None:
        self._scheduler = scheduler
        self._nominations = nominations
        self._reported: dict[str, tuple[str, str]] = {}
        """Of each nominated pod, by uid, the node and the last message; bounded by the ledgers."""

    def take(self, now: Now) -> list[Command]:
        """Return what is to be published now."""
        if not (self._reported or self._nominations.any):
            return []
        reported, self._reported = self._reported, {}
        commands: list[Command] = []
        for nomination in self._nominations.own():
            waits_for = self._waits_for(nomination, now)
            for (node, _), claim in nomination.claims.items():
                since = datetime.fromtimestamp(claim.decided_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                message = f"nominated on {node} since {since}; waits for {waits_for}"
                self._reported[claim.uid] = (node, message)
                pod = self._scheduler.pods.get(claim.uid)
                if pod is None or reported.pop(claim.uid, None) == (node, message):
                    continue
                commands.append(publishing.publish(self._scheduler.nominated(claim.uid, message, now)))
                commands.append(RecordStep(claim.uid, pod.fact.ref, "nominated", node, message))
        for uid, (node, _) in reported.items():
            pod, opened = self._scheduler.pods.get(uid), self._scheduler.claim_on(node, uid)
            if pod is not None and opened is not None and not opened.waits_for:
                pod.report(placed_on(node), now.monotonic)
                commands.append(RecordStep(uid, pod.fact.ref, "claimed", node))
        return commands

    def _waits_for(self, nomination: Nomination, now: Now) -> str:
        going = []
        for uid in nomination.waits_for:
            pod = self._scheduler.pods.get(uid)
            if pod is None or pod.fact.ended:
                continue
            eviction, _ = nomination.evictions.get(uid, (None, ""))
            if pod.fact.terminating:
                state = f"terminating, grace {pod.fact.grace:g} s"
            elif eviction is not None and eviction.go:
                budget = self._scheduler.protecting_budget(uid, now)
                state = f"blocked by {budget}" if budget else "to be evicted"
            else:
                state = "asked whether it may go"
            going.append(f"{pod.fact.ref} ({state})")
        return shortened(going) or "its place"
