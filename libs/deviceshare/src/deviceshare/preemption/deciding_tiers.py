"""Which tier of plugins decides about the pods of a node: the first one that lets some of them go.

Source: Volcano pkg/scheduler/framework/session_plugins.go (Preemptable, Reclaimable). By default all plugins are one
tier, which decides everywhere.
"""

from collections.abc import Callable, Mapping, Sequence

from deviceshare.model import GroupKey
from deviceshare.preemption.candidate_table import CandidateTable
from deviceshare.preemption.candidates import EvictionCandidate, Preemptor
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.rules import Rules
from deviceshare.preemption.shares import Allows


class DecidingTiers:
    """The tiers of one action for a waiting group.

    Args:
        tiers: the rules of each tier, one at least.
        table: the candidates, all of which are looked at if there are several tiers.
        preemptor: the group.
        together: what each tier says of several pods together.
        gang: returns a group as a gang.
    """

    def __init__(
        self,
        tiers: Sequence[Rules],
        table: CandidateTable,
        preemptor: Preemptor,
        together: Mapping[Rules, Allows],
        gang: Callable[[GroupKey], Gang],
    ) -> None:
        self._tiers, self._table, self._preemptor = tiers, table, preemptor
        self._together, self._gang = together, gang
        self._on_node: dict[str, list[EvictionCandidate]] = {}
        for candidate in table if len(tiers) > 1 else ():
            self._on_node.setdefault(candidate.node, []).append(candidate)
        self._of_node: dict[str, Rules] = {}

    def _first(self, pods: Sequence[EvictionCandidate]) -> Rules:
        """Return the first tier that lets one of the pods of a node go, else the last one."""
        return next((rules for rules in self._tiers if any(self._lets_go(rules, pod) for pod in pods)), self._tiers[-1])

    def _lets_go(self, rules: Rules, candidate: EvictionCandidate) -> bool:
        if not rules.concerns(self._preemptor, candidate) or rules.protection(self._preemptor, candidate):
            return False
        gang = rules.binding(self._gang(candidate.group))
        alone = gang is None or gang.with_all_that_go({candidate.uid}) is not None
        return alone and self._together[rules]([candidate])

    def of(self, node: str) -> Rules:
        """Return the rules that decide about the pods of a node."""
        if len(self._tiers) == 1:
            return self._tiers[0]
        rules = self._of_node.get(node)
        if rules is None:
            rules = self._of_node[node] = self._first(self._on_node.get(node, ()))
        return rules

    def allow(self, victims: Sequence[EvictionCandidate]) -> bool:
        """Return whether pods may go together: those of each node by what its tier says."""
        if len(self._tiers) == 1:
            return self._together[self._tiers[0]](victims)
        return all(
            allows([victim for victim in victims if self.of(victim.node) is rules])
            for rules, allows in self._together.items()
        )

    def binding(self, key: GroupKey) -> Gang | None:
        """Return a group as a gang whose minimum counts: by the first of its nodes' tiers where it does."""
        gang = self._gang(key)
        if len(self._tiers) == 1:
            return self._tiers[0].binding(gang)
        members = (self._table.get(uid) for uid in gang.placed)
        deciding = dict.fromkeys(self.of(member.node) for member in members if member is not None)
        return next((each for rules in deciding if (each := rules.binding(gang)) is not None), None)
