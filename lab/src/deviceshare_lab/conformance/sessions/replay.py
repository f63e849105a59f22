"""One recorded session compared with ours: the differences, and the rules that explain them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from deviceshare.model import DeviceshareError

from deviceshare_lab.conformance.outcomes import INPUT, AspectVerdict
from deviceshare_lab.conformance.sessions.facts import SessionFacts, decode
from deviceshare_lab.conformance.sessions.player import Player
from deviceshare_lab.conformance.sessions.recorded import Answer, Placed, Session
from deviceshare_lab.conformance.sessions.rules import RULES, Rule, without

PODS, NODES, DEVICES, ORDER, PHASES = "pods", "nodes", "devices", "order", "phases"
"""The compared aspects; nodes, devices and order only if the same pods were placed."""
_TIMES = ("volcano.sh/vgpu-time", "volcano.sh/bind-time", "predicate-time", "volcano.sh/predicate-time")
_MAX_SHOWN = 5


class Difference(msgspec.Struct, frozen=True):
    """A recorded value and our different one."""

    aspect: str
    recorded: str
    ours: str

    @property
    def title(self) -> str:
        """The aspect."""
        return self.aspect


class Verdict(AspectVerdict, frozen=True):
    """The result of a replay: a rule explains a difference only if the answer without the rule is as recorded."""

    without_rules: tuple[Difference, ...] = ()
    """The differences that remain without any rule."""

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """The differences that remain, none of a verdict with rules."""
        return self.without_rules


def replay(session: Session, *, off: Sequence[Rule] = ()) -> Verdict:
    """Replay a session; ``off``: rules that are disabled from the start."""
    try:
        facts = decode(session)
        differences = _differences(session, facts, off)
    except DeviceshareError as error:
        differences = (Difference(INPUT, "can be used", str(error)),)
        return Verdict(differences, (), differences)
    others = [rule for rule in RULES if rule not in off]
    if not differences or not others:
        return Verdict(differences, (), differences)
    unexplained = _differences(session, facts, RULES)
    if unexplained:
        return Verdict(differences, (), unexplained)
    return Verdict(differences, tuple(rule.name for rule in _needed(session, facts, others, off)))


def _needed(session: Session, facts: SessionFacts, rules: Sequence[Rule], off: Sequence[Rule]) -> list[Rule]:
    """Return a minimal set of rules that explains everything: one rule if possible."""
    for rule in rules:
        if not _differences(session, facts, [*off, rule]):
            return [rule]
    needed = list(rules)
    for rule in rules:
        others = [other for other in needed if other is not rule]
        if not _differences(session, facts, [*off, *others]):
            needed = others
    return needed


def _differences(session: Session, facts: SessionFacts, off: Sequence[Rule]) -> tuple[Difference, ...]:
    ours = Player(without(facts, off)).play(1 if session.from_unit_test else session.sessions)
    return tuple(_unit_test(session, ours) if session.from_unit_test else _compare(session.volcano, ours))


def _compare(recorded: Answer, ours: Answer) -> list[Difference]:
    found = _placements(recorded, ours)
    order = [[placed.pod for placed in answer.placed] for answer in (recorded, ours)]
    if not found and order[0] != order[1]:
        at = next(at for at, (one, other) in enumerate(zip(*order, strict=True)) if one != other)
        found.append(Difference(ORDER, *(f"#{at} is {pods[at]}" for pods in order)))
    return found + _phases(recorded.phases, ours.phases)


def _placements(recorded: Answer, ours: Answer) -> list[Difference]:
    theirs, mine = _by_pod(recorded), _by_pod(ours)
    if theirs.keys() != mine.keys():
        return [Difference(PODS, *map(_shown, (theirs.keys() - mine.keys(), mine.keys() - theirs.keys())))]
    moved = sorted(pod for pod in theirs if theirs[pod].node != mine[pod].node)
    if moved:
        return [Difference(NODES, *(_shown(f"{pod} on {each[pod].node}" for pod in moved) for each in (theirs, mine)))]
    return [
        Difference(DEVICES, f"{pod}: {_bare(theirs[pod])}", f"{pod}: {_bare(mine[pod])}")
        for pod in sorted(theirs)
        if _bare(theirs[pod]) != _bare(mine[pod])
    ][:_MAX_SHOWN]


def _phases(recorded: Mapping[str, str], ours: Mapping[str, str]) -> list[Difference]:
    other = sorted(key for key in recorded if recorded[key] != ours.get(key))
    if not other:
        return []
    return [Difference(PHASES, *(_shown(f"{key} {each.get(key, '')}" for key in other) for each in (recorded, ours)))]


def _unit_test(session: Session, ours: Answer) -> list[Difference]:
    expected = session.volcano
    if any(not placed.node for placed in expected.placed):
        counts = (str(len(expected.placed)), str(len(ours.placed)))
        found = [] if counts[0] == counts[1] else [Difference(PODS, *counts)]
    else:
        found = [each for each in _placements(expected, ours) if each.aspect != DEVICES]
    return found + _phases(expected.phases, _enqueued(session, ours))


def _enqueued(session: Session, ours: Answer) -> dict[str, str]:
    """Return the phases before the end of a session, which only the action ``enqueue`` has changed."""
    before = {
        f"{group['metadata']['namespace']}/{group['metadata']['name']}": group["status"]["phase"]
        for group in session.podgroups or ()
    }
    return {
        key: phase if phase != "Pending" or ours.phases.get(key) == "Pending" else "Inqueue"
        for key, phase in before.items()
        if key in ours.phases
    }


def _by_pod(answer: Answer) -> dict[str, Placed]:
    return {placed.pod: placed for placed in answer.placed}


def _bare(placed: Placed) -> dict[str, str]:
    """Return the annotations of devices without times, sorted."""
    return {key: value for key, value in sorted(placed.annotations.items()) if key not in _TIMES}


def _shown(items: Iterable[str]) -> str:
    found = sorted(items)
    more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return (", ".join(found[:_MAX_SHOWN]) or "nothing") + more
