"""One recorded cluster: our victims compared with the best ones."""

from collections.abc import Iterable, Mapping
from typing import Any

from deviceshare.conf import known
from deviceshare.model import DeviceshareError
from msgspec.structs import replace

from deviceshare_lab.checker.objects import violations
from deviceshare_lab.conformance.outcomes import INPUT, AspectVerdict
from deviceshare_lab.conformance.preemption.judge import forbidden
from deviceshare_lab.conformance.preemption.player import PreemptingPlayer
from deviceshare_lab.conformance.preemption.recorded import Case, reference
from deviceshare_lab.conformance.sessions.facts import decode
from deviceshare_lab.conformance.sessions.recorded import Object, Placed
from deviceshare_lab.conformance.sessions.replay import Difference
from deviceshare_lab.conformance.sessions.rules import with_arguments

PLACED, ALLOWED, FITS, SERVED = "placed", "allowed", "fits", "served"
"""What must hold of every case: the pods that can be placed are; no victim is protected; what runs then fits; and no
pod went for one that was not placed."""
COUNT, SUM = "count", "sum"
"""How good the victims are: as few as can be, and of these sets the one with the lowest sum of priorities."""
ASPECTS = (PLACED, ALLOWED, FITS, SERVED, COUNT, SUM)
REQUIRED = (PLACED, ALLOWED, FITS, SERVED)

ALWAYS: dict[str, Any] = {known.STARVATION_SECONDS: 0, known.NUMBER_ON_SHARED: True}
"""A replay takes no time; and nodes were recorded whose GPU plugin shares memory, though pods ask for whole GPUs."""
_WITHOUT_WHOLE_GANGS = {"deviceshare.PreemptionGangEnable": False}


class Verdict(AspectVerdict, frozen=True):
    """The differences, and how many more pods went than needed."""

    more: int = 0


def replay(case: Case, arguments: Mapping[str, Any] = ALWAYS) -> Verdict:
    """Replay a case under the settings of its configuration, and these ``arguments`` of deviceshare."""
    arguments = ALWAYS | dict(arguments) | (_WITHOUT_WHOLE_GANGS if case.without_whole_gangs else {})
    try:
        facts = decode(case)
        player = PreemptingPlayer(replace(facts, conf=with_arguments(facts.conf, arguments)), case.pdbs)
    except DeviceshareError as error:
        return Verdict((Difference(INPUT, "can be used", str(error)),))
    player.run()
    victims = sorted(name for each in player.preempted for name in each.victims)
    priorities = {reference(pod): pod["spec"].get("priority", 0) for pod in case.pods or ()}
    total = sum(priorities[name] for name in victims)
    wanted, ours = case.wanted, {each.pod for each in player.placed}
    found = []
    if problem := _of_placed(case, ours, bool(victims)):
        found.append(Difference(PLACED, _names(wanted.placed), f"{_names(ours)}: {problem}"))
    found += [Difference(ALLOWED, "", text) for text in forbidden(case, player.preempted, player.now.wall)]
    found += [Difference(FITS, "", text) for text in _overfull(case, player.placed, victims)]
    for each in player.preempted:
        if not set(each.placed) or not set(each.placed) <= ours - set(victims):
            found.append(Difference(SERVED, "", f"{_names(each.victims)} went for {each.group}, which is not placed"))
    if len(victims) != wanted.count:
        best = f"{wanted.count}: {_names(wanted.victims)}"
        found.append(Difference(COUNT, best, f"{len(victims)}: {_names(victims)}"))
    elif total != wanted.sum:
        found.append(Difference(SUM, f"{wanted.sum}: {_names(wanted.victims)}", f"{total}: {_names(victims)}"))
    return Verdict(tuple(found), more=len(victims) - wanted.count)


def _of_placed(case: Case, ours: set[str], preempted: bool) -> str:
    """Return what is wrong with the placed pods; a group may have more than its minimum."""
    wanted = set(case.wanted.placed)
    if not wanted and preempted:
        return "pods went, though none may"
    group_of = {reference(pod): _group(pod) for pod in case.pods or ()}
    if missing := wanted - ours:
        return f"{_names(missing)} waits"
    groups = {group_of[name] for name in wanted}
    more = [name for name in ours - wanted if group_of[name] not in groups]
    return f"{_names(more)} is placed too" if more else ""


def _overfull(case: Case, placed: Iterable[Placed], victims: Iterable[str]) -> list[str]:
    """Return what does not fit at the end, though it fitted at the beginning."""
    before = violations(case.nodes or (), case.pods or (), (), case.podgroups or (), case.devices)
    gone, new = set(victims), {each.pod: each for each in placed}
    pods: list[Object] = []
    for pod in case.pods or ():
        name = reference(pod)
        if name in new:
            pods.append(_bound(pod, new[name]))
        elif name not in gone:
            pods.append(pod)
    after = violations(case.nodes or (), pods, (), case.podgroups or (), case.devices)
    return [text for text in after if text not in before]


def _bound(pod: Object, placed: Placed) -> Object:
    metadata = pod["metadata"]
    annotations = (metadata.get("annotations") or {}) | placed.annotations
    return pod | {
        "metadata": metadata | {"annotations": annotations},
        "spec": pod["spec"] | {"nodeName": placed.node},
    }


def _group(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name", ""))


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
