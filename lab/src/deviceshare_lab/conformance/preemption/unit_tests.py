"""Volcano's unit tests of preemption and reclaim: who is evicted."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare.model import DeviceshareError
from msgspec.structs import replace

from deviceshare_lab.conformance.lines import decoded
from deviceshare_lab.conformance.outcomes import INPUT, Outcome, Summary, Verdict, blocks
from deviceshare_lab.conformance.preemption.player import PreemptingPlayer
from deviceshare_lab.conformance.preemption.recorded import reference
from deviceshare_lab.conformance.preemption.replay import ALWAYS
from deviceshare_lab.conformance.sessions.facts import decode
from deviceshare_lab.conformance.sessions.recorded import Object, Session
from deviceshare_lab.conformance.sessions.replay import Difference
from deviceshare_lab.conformance.sessions.rules import RULES, with_arguments
from deviceshare_lab.conformance.sessions.unit_tests import UnitTest, session_of

EVICTED = "evicted"
_ARGUMENTS = {rule.name: rule.argument for rule in RULES if rule.argument} | {
    "whole-gangs": "deviceshare.PreemptionGangEnable",
    "all-tiers": "deviceshare.PreemptionTierEnable",
}
"""The arguments that disable our rules."""
DESERVED_IN_ALL = "deserved-in-all"
"""The rule that a queue takes back only what is within its deserved amounts in all resources that its pods request. In
Volcano one resource is enough."""
_PLAYED = ("allocate", "backfill")
"""Actions that place what fits into free room, which most of the tests leave out."""


class EvictionTest(UnitTest, frozen=True, kw_only=True):
    """A test with the pods that are evicted, or only their number."""

    evicts: tuple[str, ...] | None = None
    configurations: tuple[dict[str, Any], ...] | None = None

    @property
    def out_of_reach(self) -> str:
        """The feature that prevents a replay of the test, '' if there is none."""
        return replace(self.plain, evictnum=0).out_of_reach

    @property
    def plain(self) -> UnitTest:
        """The same without what concerns evictions."""
        return UnitTest(**{name: getattr(self, name) for name in UnitTest.__struct_fields__})

    def session(self) -> Session:
        """Return the test as a session; a PodGroup without a minimum has none, as in the tests."""
        session = self.plain.session()
        conf = json.loads(session.conf)
        more = [action for action in _PLAYED if action not in self.actions]
        conf["actions"] = ", ".join([conf["actions"], *more])
        conf["configurations"] = [
            {"name": each["Name"], "arguments": each["Arguments"]} for each in self.configurations or ()
        ]
        groups = tuple(group | {"spec": {"minMember": 0, **group["spec"]}} for group in session.podgroups or ())
        return replace(session, conf=json.dumps(conf), podgroups=groups)


EvictionSummary = Summary[EvictionTest, Verdict]


def is_of_evictions(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has unit tests with the pods that are evicted."""
    return {"evicts", "tiers"} <= keys


_TEST = msgspec.json.Decoder(EvictionTest)


def summarize(files: Sequence[Path], *, as_volcano: bool) -> EvictionSummary:
    """Replay the tests of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    outcomes = []
    out_of_reach: Counter[str] = Counter()
    arguments = ALWAYS | (dict.fromkeys(_ARGUMENTS.values(), False) if as_volcano else {})
    for path in files:
        for number, where, test in decoded(path, _TEST):
            session = session_of(test, where, out_of_reach)
            if session is not None:
                outcomes.append(Outcome(path, number, test, _replay(test, session, arguments)))
    return EvictionSummary(outcomes, dict(out_of_reach))


def _replay(test: EvictionTest, session: Session, arguments: Mapping[str, Any]) -> Verdict:
    try:
        differences = _differences(test, session, arguments)
    except DeviceshareError as error:
        return Verdict((Difference(INPUT, "can be used", str(error)),))
    rule = _rule(test, session, arguments) if differences else ""
    return Verdict(differences, (rule,) if rule else ())


def _rule(test: EvictionTest, session: Session, arguments: Mapping[str, Any]) -> str:
    """Return the rule without which the same pods are evicted, '' for none."""
    for name, argument in _ARGUMENTS.items():
        if arguments.get(argument, True) and not _differences(test, session, {**arguments, argument: False}):
            return name
    one_resource = _with_one_resource(session)
    return DESERVED_IN_ALL if any(not _differences(test, each, arguments) for each in one_resource) else ""


def _differences(test: EvictionTest, session: Session, arguments: Mapping[str, Any]) -> tuple[Difference, ...]:
    facts = decode(session)
    player = PreemptingPlayer(replace(facts, conf=with_arguments(facts.conf, dict(arguments))), ())
    player.run()
    ours = sorted(name for each in player.preempted for name in each.victims)
    if test.evicts is None:
        same, wanted = len(ours) == test.evictnum, f"{test.evictnum} pods"
    else:
        same, wanted = ours == sorted(test.evicts), ", ".join(sorted(test.evicts))
    why = "; ".join(f"{group}: {text}" for group, text in player.reasons.items())
    return () if same else (Difference(EVICTED, wanted, ", ".join(ours) or f"none ({why})"),)


def _with_one_resource(session: Session) -> Iterator[Session]:
    """Yield sessions in which the queues of waiting pods deserve one resource alone."""
    queue_of = {reference(group): group["spec"].get("queue", "default") for group in session.podgroups or ()}
    waiting = {queue_of.get(_group(pod)) for pod in session.pods or () if not pod["spec"].get("nodeName")}
    deserved = {queue["metadata"]["name"]: queue["spec"].get("deserved") or {} for queue in session.queues or ()}
    for resource in sorted({name for queue in waiting & deserved.keys() for name in deserved[queue]}):
        yield replace(
            session,
            queues=tuple(
                _deserving(queue, resource) if queue["metadata"]["name"] in waiting else queue
                for queue in session.queues or ()
            ),
        )


def _group(pod: Object) -> str:
    metadata = pod["metadata"]
    name = (metadata.get("annotations") or {}).get("scheduling.k8s.io/group-name", "")
    return f"{metadata.get('namespace', 'default')}/{name}"


def _deserving(queue: Object, resource: str) -> Object:
    spec = queue["spec"]
    kept = {name: amount for name, amount in (spec.get("deserved") or {}).items() if name == resource}
    return queue | {"spec": spec | {"deserved": kept}}


def as_text(summary: EvictionSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every test that failed."""
    lines = [f"Explained by our rule {name}: {count} unit tests" for name, count in sorted(summary.rules.items())]
    lines += [*summary.not_replayed(), f"Evictions of unit tests: {summary.totals()}"]
    return "\n\n".join([*blocks(summary.failures, verbose=verbose), "\n".join(lines)])


def as_object(summary: EvictionSummary) -> dict[str, Any]:
    """Return the summary for JSON."""
    return {
        "tests": len(summary.outcomes) + sum(summary.out_of_reach.values()),
        "identical": summary.identical,
        "rules": summary.rules,
        "out_of_reach": summary.out_of_reach,
        "failures": summary.failures,
    }
