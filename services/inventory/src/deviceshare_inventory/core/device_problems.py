"""What is wrong with the devices of bound pods: missing and unhealthy cards, deleted nodes, pods without devices."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.families import BY_NAME, FAMILIES, FamilyError, calling
from deviceshare.model import (
    CARD_MISSING,
    CARD_UNHEALTHY,
    DEVICES_MISSING,
    NODE_MISSING,
    Card,
    PodFact,
    Problem,
    RequestError,
)
from deviceshare.objects import requests_devices
from msgspec.structs import replace


class DeviceProblems:
    """The bound pods that hold or request devices, and the health of the cards of their nodes.

    A node that was never seen is no problem of pods that hold devices: it may be delivered after its pods.
    """

    def __init__(self) -> None:
        self._conf = default_conf()
        self._pods: dict[str, PodFact] = {}
        """By uid: the facts of bound pods, without the problems that are found here."""
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """Uids of ``_pods``, by node."""
        self._healthy: dict[str, dict[str, bool]] = {}
        """By node: whether its cards are healthy, by id."""
        self._serving: dict[str, frozenset[str]] = {}
        """By node: the hardware of which a card is healthy."""
        self._gone: set[str] = set()
        """Deleted nodes of ``_pods``."""
        self._listed = False
        """Whether all nodes of the cluster have been delivered."""

    def begin_list(self) -> None:
        """Forget what the list will deliver again."""
        self._pods.clear()
        self._on.clear()
        self._healthy.clear()
        self._serving.clear()
        self._gone.clear()
        self._listed = False

    def end_list(self) -> list[PodFact]:
        """Take nodes that were not in the list as deleted; return the facts of all pods with problems."""
        self._listed = True
        self._gone = {node for node in self._on if node not in self._healthy}
        return [found for uid in self._pods if (found := self._judged(uid)) is not self._pods[uid]]

    def configure(self, conf: SchedulerConf) -> None:
        """Set the configuration, which says what requests devices."""
        self._conf = conf

    def pod(self, fact: PodFact) -> PodFact:
        """Return the fact of a pod with the problems of its devices."""
        node_is_gone = fact.node in self._gone
        self.forget(fact.uid)
        if not fact.node or fact.ended or not (fact.held or requests_devices(fact.ask)):
            return fact
        self._pods[fact.uid] = fact
        self._on[fact.node].add(fact.uid)
        if node_is_gone:
            self._gone.add(fact.node)
        return self._judged(fact.uid)

    def keeps(self, fact: PodFact) -> bool:
        """Return whether this very fact is kept here."""
        return self._pods.get(fact.uid) is fact

    def forget(self, uid: str) -> None:
        """Forget a pod that holds no devices any more."""
        fact = self._pods.pop(uid, None)
        if fact is not None:
            uids = self._on[fact.node]
            uids.discard(uid)
            if not uids:
                del self._on[fact.node]
                self._gone.discard(fact.node)

    def node(self, name: str, cards: Iterable[Card] | None) -> list[PodFact]:
        """Record the cards of a node, None if it was deleted; return the facts of its pods if they may have changed."""
        before = self._healthy.pop(name, None)
        self._serving.pop(name, None)
        if cards is None:
            if name in self._on:
                self._gone.add(name)
        else:
            self._gone.discard(name)
            cards = tuple(cards)
            self._healthy[name] = {card.id: card.healthy for card in cards}
            hardware = {mode: family.hardware.name for family in FAMILIES for mode in family.modes}
            self._serving[name] = frozenset(hardware.get(card.mode, "") for card in cards if card.healthy)
        if before == self._healthy.get(name):
            return []
        return [self._judged(uid) for uid in sorted(self._on.get(name, ()))]

    def of_node(self, name: str) -> dict[Problem, bool]:
        """Return what is wrong with cards of a node that pods hold, and whether it may be over in seconds.

        It may while no card of the same hardware is healthy there: after a restart of kubelet, which then offers no
        devices, their plugin may be registering again.
        """
        problems = dict[Problem, bool]()
        for uid in sorted(self._on.get(name, ())):
            for kind, card, passing in self._cards(self._pods[uid]):
                why = "is not registered any more" if kind == CARD_MISSING else "is unhealthy"
                problems[Problem(f"Node {name}", kind, f"{card}, which pods hold, {why}", "")] = passing
        return problems

    def passing(self, uid: str) -> set[Problem]:
        """Return the problems of a pod's devices that may be over in seconds, see :meth:`of_node`."""
        fact = self._pods.get(uid)
        return {problem for problem, passing in self._found(fact) if passing} if fact is not None else set()

    def _judged(self, uid: str) -> PodFact:
        fact = self._pods[uid]
        problems = [problem for problem, _ in self._found(fact)]
        return replace(fact, problems=(*fact.problems, *problems)) if problems else fact

    def _found(self, fact: PodFact) -> Iterator[tuple[Problem, bool]]:
        """Yield the problems of a pod's devices, and whether each may be over in seconds."""
        for kind, text, passing in self._sentences(fact):
            yield Problem(f"Pod {fact.ref}", kind, text, ""), passing

    def _sentences(self, fact: PodFact) -> Iterator[tuple[str, str, bool]]:
        if fact.node in self._gone:
            yield NODE_MISSING, f"node {fact.node} does not exist", False
        elif not fact.held:
            if not self._requests(fact):
                return
            if self._listed and fact.node not in self._healthy:
                yield NODE_MISSING, f"node {fact.node} does not exist", False
            else:
                yield DEVICES_MISSING, f"the pod runs on {fact.node} without the devices that it requests", False
        else:
            for kind, card, passing in self._cards(fact):
                why = "does not register it any more" if kind == CARD_MISSING else "marks it as unhealthy"
                yield kind, f"the pod holds {card}, and node {fact.node} {why}", passing

    def _cards(self, fact: PodFact) -> Iterator[tuple[str, str, bool]]:
        """Yield a pod's missing and unhealthy cards, by id, and whether no card of their hardware is healthy."""
        healthy = self._healthy.get(fact.node)
        if healthy is None:
            return
        for card, name in {device.id: grant.family for grant in fact.held for device in grant.devices}.items():
            if healthy.get(card):
                continue
            family = BY_NAME.get(name)
            passing = family is None or family.hardware.name not in self._serving[fact.node]
            yield CARD_UNHEALTHY if card in healthy else CARD_MISSING, card, passing

    def _requests(self, fact: PodFact) -> bool:
        """Return whether a pod requests devices of a family that is enabled."""
        for family in FAMILIES:
            if family.flag not in self._conf.families:
                continue
            try:
                with calling(family.name, "demand"):
                    demand = family.demand(fact.ask, self._conf)
            except (RequestError, FamilyError):
                continue
            # The whole cards of a node without registered ones are in no annotation.
            if demand is not None and not demand.or_whole:
                return True
        return False
