"""What the binder records of its steps: log lines, counters, steps of pods on EVENT, and reports to users."""

from deviceshare.families.dra import DeviceConflict
from deviceshare.model import BOUND
from deviceshare_bus.cores.core import Command, Count, Log, Now

from deviceshare_binder.core.bind_steps import RecordedStep
from deviceshare_binder.core.bind_task import ConditionsPending, Finished, Paused, Rejected
from deviceshare_binder.core.claim_records import of_conflict, of_outcome, of_rejection
from deviceshare_binder.core.claims import ClaimBinder
from deviceshare_binder.core.comparison import Compared
from deviceshare_binder.core.comparison import records_of as of_comparison
from deviceshare_binder.core.evictions import EvictedPod
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.plugin_handoff import Stuck
from deviceshare_binder.core.preemption_records import evict_of_group, records_of
from deviceshare_binder.core.reports import Reports


class StepRecords:
    """Records steps; ``reports`` has the Events for users, ``groups`` are the PodGroups."""

    def __init__(self, claims: ClaimBinder, reports: Reports, groups: Groups) -> None:
        self._claims = claims
        self._reports = reports
        self._groups = groups

    def of(self, step: RecordedStep, now: Now) -> list[Command]:
        """Return the records of a step."""
        match step:
            case Finished():
                if step.state == BOUND:
                    self._reports.bound(step.claim, step.node)
                return of_outcome(step, now)
            case Stuck():
                return self._stuck(step)
            case Rejected():
                return of_rejection(step)
            case Compared():
                return of_comparison(step, now)
            case DeviceConflict():
                self._reports.conflict(step)
                return of_conflict(step)
            case ConditionsPending():
                self._reports.conditions_pending(*step)
                return []
            case Paused():
                self._reports.paused(*step)
                return []
            case _:
                event, records = records_of(step, self._claims.outcomes.nodes)
                if event is not None:
                    self._reports.event(event)
                if isinstance(step, EvictedPod) and (group := self._groups.of_pod(step.eviction.uid)) is not None:
                    self._reports.event(evict_of_group(step.eviction, group))
                return records

    def _stuck(self, stuck: Stuck) -> list[Command]:
        pod = self._claims.facts.pods.get(stuck.uid) or self._claims.others.get(stuck.uid)
        if stuck.begun:
            self._reports.behind(stuck, pod, self._claims.claims(stuck.waiting))
            return []
        if pod is not None:
            self._reports.stuck(stuck, pod, self._claims.claims(stuck.waiting))
        details = {"uid": stuck.uid, "node": stuck.node}
        return [Count("hand_overs_stuck"), Log("warning", "a device plugin does not serve a pod", details)]
