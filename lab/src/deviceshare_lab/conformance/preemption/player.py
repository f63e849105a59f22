"""The scheduler on a recorded cluster: sessions until nothing changes, then victims for one waiting group at a time.

Victims are gone at once, and the pods for which they went run, before the next group is looked at.
"""

from collections.abc import Iterable

import msgspec
from deviceshare.model import Gone, GroupKey
from deviceshare.objects import decode_disruption_budget
from deviceshare.preemption import Preemption
from deviceshare_bus.messages.subjects import fact as subject_of

from deviceshare_lab.conformance.sessions.facts import SessionFacts
from deviceshare_lab.conformance.sessions.player import Player
from deviceshare_lab.conformance.sessions.recorded import Object, Placed

_MAX_SESSIONS = 50


class Preempted(msgspec.Struct, frozen=True):
    """What was decided for one group."""

    group: str
    action: str
    victims: tuple[str, ...]
    placed: tuple[str, ...]


class PreemptingPlayer(Player):
    """One cluster whose waiting groups may have other pods go."""

    def __init__(self, facts: SessionFacts, budgets: Iterable[Object]) -> None:
        super().__init__(facts)
        self._priorities = {each.name: each.value for each in facts.priorities}
        for each in budgets:
            fact = decode_disruption_budget(msgspec.json.encode(each))
            self.fact(subject_of("poddisruptionbudget", fact.key), fact)
        self.placed: list[Placed] = []
        """The pods that were placed, in order."""
        self.preempted: list[Preempted] = []
        """The groups for which pods went."""
        self.reasons: dict[str, str] = {}
        """Why no pod went for the other groups that wait."""

    def run(self) -> None:
        """Place what fits, with victims where that is needed."""
        self._settle()
        tried: set[GroupKey] = set()
        while waiting := [key for key in self._waiting() if key not in tried]:
            for key in waiting:
                found = self._scheduler.preempt(key, self.now)
                if found.placed:
                    self._take(key, found)
                    self._settle()
                    break
                tried.add(key)
                self.reasons[key] = str(found)

    def _settle(self) -> None:
        for _ in range(_MAX_SESSIONS):
            before = self._phases()
            new = self.session(self._sessions + 1)
            self.placed += new
            if not new and self._phases() == before:
                return

    def _waiting(self) -> list[GroupKey]:
        """Return the groups with waiting pods: by priority, age and name."""
        scheduler = self._scheduler
        found = []
        for key, group in scheduler.groups.items():
            if group.fact is not None and any(scheduler.pods[uid].waits for uid in group.members):
                priority = self._priorities.get(group.fact.priority_class, 0)
                found.append((-priority, group.fact.created, key))
        return [key for _, _, key in sorted(found)]

    def _take(self, key: GroupKey, found: Preemption) -> None:
        assert found.decision is not None
        for victim in found.victims:
            self.fact(subject_of("pod", victim.uid), Gone())
            self._groups.pod(victim.uid, None)
            self._pods.pop(victim.uid)
        new = self._bind([self._claim(pod, placement, found.decision) for pod, placement in found.placed])
        self.placed += new
        victims = tuple(victim.pod.ref for victim in found.victims)
        if victims:
            self.preempted.append(Preempted(key, found.action, victims, tuple(each.pod for each in new)))
