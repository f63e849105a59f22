"""Checks pods that go for others in a real system, where messages and pods are read one after the other."""

from collections import OrderedDict
from typing import TypeVar

from deviceshare_lab.checker.claims import Claims, Eviction, parse_evictions
from deviceshare_lab.checker.evictions import priority_of
from deviceshare_lab.checker.pods import Report
from deviceshare_lab.clusters.fields import Object, name_of

KNOWN = 50_000
"""Pods and evictions that are remembered."""
EVICTED = "EvictionByEvictionAPI"
"""The reason of the condition of a pod that was evicted."""


_Value = TypeVar("_Value")


class ReadEvictions:
    """The evictions in the ledgers, and the pods that were evicted. Times do not matter: both are compared at rest."""

    def __init__(self, report: Report, claims: Claims) -> None:
        self._report, self._claims = report, claims
        self._now: dict[str, list[Eviction]] = {}
        """By the subject of the ledger."""
        self._new: dict[tuple[str, str], Eviction] = {}
        """Those that were not checked yet, by claim and uid."""
        self._let_go: OrderedDict[str, None] = OrderedDict()
        """Uids of the pods that were to be evicted at any time."""
        self._priorities: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Name and priority of each pod that was seen, by uid."""
        self._evicted: dict[str, str] = {}
        """The names of the evicted pods that were not checked yet, by uid."""
        self.count = 0
        """How many pods were seen that were evicted."""

    def ledger(self, subject: str, data: bytes) -> None:
        """Take a message of LEDGER."""
        if subject in self._claims.foreign:
            return
        self._now[subject] = evictions = parse_evictions(subject, data)
        for each in evictions:
            self._new[each.claim, each.uid] = each
            if each.go:
                _remember(self._let_go, each.uid, None)

    def clear(self) -> None:
        """Begin anew with the ledgers."""
        self._now.clear()

    def pod(self, pod: Object) -> None:
        """Take a pod as it is now."""
        uid = pod["metadata"]["uid"]
        _remember(self._priorities, uid, (name_of(pod), priority_of(pod)))
        conditions = pod["status"].get("conditions") or ()
        if uid not in self._evicted and any(each.get("reason") == EVICTED for each in conditions):
            self._evicted[uid] = name_of(pod)

    @property
    def summary(self) -> str:
        """How many pods went for others, '' for none."""
        if not self._let_go:
            return ""
        return f"LEDGER let {len(self._let_go)} pods go, {self.count} of them were seen while they ended"

    def check(self, *, complete: bool) -> None:
        """Check what was read since the last call; ``complete``: no message of LEDGER was lost or missed."""
        for each in self._new.values():
            claim = self._claims.known(each.claim)
            victim, preemptor = self._priorities.get(each.uid), self._priorities.get(claim.uid if claim else "")
            if victim is not None and preemptor is not None and victim[1] >= preemptor[1]:
                self._report("pods of lower priority go", f"{victim} has to go for {preemptor}")
            if complete and claim is not None and not claim.waits_for:
                self._report("pods go for claims", f"{each.name} has to go for {claim}, which waits for no pod")
        self._new.clear()
        for uid, name in self._evicted.items():
            if complete and uid not in self._let_go:
                self._report("only pods that have to go are evicted", f"{name} ({uid})")
        self.count += len(self._evicted)
        self._evicted.clear()

    def left(self) -> list[str]:
        """Return the evictions that are still in the ledgers."""
        return [
            f"{each.name} still has to go for {each.claim}"
            for _, evictions in sorted(self._now.items())
            for each in evictions
        ]


def _remember(known: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    known[key] = value
    if len(known) > KNOWN:
        known.popitem(last=False)
