"""The pods that placement would leave without a node, and whether they only wait until others end. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from deviceshare.conf import SchedulerConf
from deviceshare.model import Fact, NodeFact, PodFact, PodUid, Problem, Synced, unavailable
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_bus.messages.subjects import fact as subject_of

from deviceshare_cli.simulate.facts import messages
from deviceshare_cli.simulate.player import Player

MAX_ROUNDS = 16
"""So many times the pods that remain are placed on the empty cluster together; then each request alone."""
MAX_ALONE = 256
"""The most requests that are placed on the empty cluster alone; of further ones it is not determined."""
_WITHOUT_NODES = unavailable(0, ())


class Waiting(NamedTuple):
    """A pod without a node, and why.

    ``problem``: its request is invalid; ``for_good``: it has no place on the empty cluster either, None if that is not
    determined.
    """

    pod: PodFact
    reason: str
    problem: Problem | None
    for_good: bool | None


class Played(NamedTuple):
    """The pods without a node after placement has decided all, and the configuration that it decided by."""

    waiting: list[Waiting]
    conf: SchedulerConf


def play(facts: Mapping[str, Fact], now: float) -> Played:
    """Let placement decide all pods of a cluster, by the facts by subject; ``now`` in unix seconds.

    Without nodes only pods are returned that no nodes could help.
    """
    player = _settled(facts, now)
    waiting = player.waiting
    if not any(isinstance(fact, NodeFact) for fact in facts.values()):
        waiting = {uid: each for uid, each in waiting.items() if not each[1].endswith(_WITHOUT_NODES)}
    for_good = _without_place(facts, [pod for pod, _ in waiting.values()], now)
    found = []
    for uid, (pod, reason) in waiting.items():
        problem = player.scheduler.why_not(pod.ask).problem
        found.append(Waiting(pod, reason, problem, not pod.gates and for_good.get(uid, False)))
    return Played(found, player.conf)


def _settled(facts: Mapping[str, Fact], now: float) -> Player:
    player = Player(messages({**facts, SYNCED: Synced()}), now)
    player.settle()
    return player


def _without_place(facts: Mapping[str, Fact], pods: Iterable[PodFact], now: float) -> dict[PodUid, bool | None]:
    """Return True for each pod that has no place on the cluster without other pods, None where it is not determined.

    Of pods that ask for the same only one is tried, a gang as a whole.
    """
    gangs: dict[str, list[PodFact]] = {}
    for pod in pods:
        gangs.setdefault(pod.group, []).append(pod)
    alike: dict[Hashable, list[list[PodFact]]] = {}
    for gang in gangs.values():
        asks = tuple((pod.ask, pod.queue, pod.namespace, pod.task, pod.problems, pod.gates) for pod in gang)
        alike.setdefault(asks if not gang[0].podgroup else gang[0].group, []).append(gang)
    others = {subject: fact for subject, fact in facts.items() if not isinstance(fact, PodFact)}

    def without_place(requests: list[list[list[PodFact]]]) -> list[list[list[PodFact]]]:
        tried = {subject_of("pod", pod.uid): pod for first, *_ in requests for pod in first}
        waiting = _settled({**others, **tried}, now).waiting
        return [gangs for gangs in requests if any(pod.uid in waiting for pod in gangs[0])]

    remaining, untried = list(alike.values()), list[list[list[PodFact]]]()
    for _ in range(MAX_ROUNDS):
        tried_together, remaining = remaining, without_place(remaining)
        if len(remaining) == len(tried_together):
            break
    else:
        # A round may have placed just one of them, where all want the same card.
        untried = remaining[MAX_ALONE:]
        remaining = [request for request in remaining[:MAX_ALONE] if without_place([request])]
    return {
        pod.uid: for_good
        for for_good, requests in ((True, remaining), (None, untried))
        for gangs in requests
        for gang in gangs
        for pod in gang
    }
