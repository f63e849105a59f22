"""The devices with which bound pods are charged: those that we signed, else those that they named first and request.

The owner of a pod can write its annotations, before and after the pod is bound. A pod is therefore charged, for as long
as it lives, with the devices that it named when it was first seen bound with devices (device plugins only add what they
made of them), up to the pod's request (:func:`deviceshare.families.clamp_to_request`). The request depends on the
configuration, and a share of a card on the card.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.families import Demands, clamp_to_request
from deviceshare.model import Card, ContainerGrant, PodFact, Problem, with_made
from deviceshare.objects import as_counted
from msgspec.structs import replace


class Adoption:
    """The bound pods that name devices, the cards of their nodes, and the configuration."""

    def __init__(self) -> None:
        self._conf = default_conf()
        self._demands = Demands(self._conf)
        self._cards: dict[str, dict[str, Card]] = {}
        self._first: dict[str, tuple[tuple[ContainerGrant, ...], bool]] = {}
        """By uid: the devices that a pod named first, and whether they were signed."""
        self._unsigned: dict[str, PodFact] = {}
        """By uid: the last fact of each pod that may name more than it requests."""
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of ``_unsigned``, by node."""

    def __contains__(self, uid: str) -> bool:
        """Return whether the devices of a pod depend on the configuration and on its node."""
        return uid in self._unsigned

    def pod(self, fact: PodFact) -> PodFact:
        """Return the current fact of a pod, with the devices that it is charged with."""
        if not fact.node or fact.ended:
            self.forget(fact.uid)
            return fact
        if fact.signed:
            self._drop(fact.uid)
            self._first[fact.uid] = fact.held, True
            return fact
        if fact.held and fact.uid not in self._first:
            self._first[fact.uid] = fact.held, False
        if fact.uid not in self._first:
            return fact
        _, signed = self._first[fact.uid]
        if not signed:
            self._unsigned[fact.uid] = fact
            self._on[fact.node].add(fact.uid)
        return self._counted(fact)

    def forget(self, uid: str) -> None:
        """Forget a pod that holds no devices any more."""
        self._first.pop(uid, None)
        self._drop(uid)

    def begin_list(self) -> None:
        """Forget all but the devices named first: all objects will be delivered again."""
        self._cards.clear()
        self._unsigned.clear()
        self._on.clear()

    def node(self, name: str, cards: Iterable[Card]) -> Iterator[PodFact]:
        """Record a node's cards; yield the current facts of its pods if the memory of a card changed."""
        known = {card.id: card for card in cards}
        before = self._cards.get(name, {})
        self._cards[name] = known
        if {card.id: card.memory for card in before.values()} != {card.id: card.memory for card in known.values()}:
            yield from (self._counted(self._unsigned[uid]) for uid in sorted(self._on.get(name, ())))

    def configure(self, conf: SchedulerConf) -> bool:
        """Record the configuration; return whether the devices of :meth:`pods` may have changed."""
        changed = (conf.devices, conf.configurations) != (self._conf.devices, self._conf.configurations)
        self._conf, self._demands = conf, Demands(conf)
        return changed

    def pods(self) -> Iterator[PodFact]:
        """Yield the current facts of the pods that depend on the configuration and on their node."""
        return (self._counted(fact) for fact in list(self._unsigned.values()))

    def _drop(self, uid: str) -> None:
        fact = self._unsigned.pop(uid, None)
        if fact is not None:
            uids = self._on[fact.node]
            uids.discard(uid)
            if not uids:  # names of nodes may be generated: there is no end of them
                del self._on[fact.node]

    def _counted(self, fact: PodFact) -> PodFact:
        first, signed = self._first[fact.uid]
        subject = f"Pod {fact.ref}"
        held = with_made(first, fact.held)
        problems = list(fact.problems)
        if held != fact.held:
            now = ", ".join(device.id for grant in fact.held for device in grant.devices)
            then = ", ".join(device.id for grant in held for device in grant.devices)
            expected = f"the devices with which it was bound, which count on: {then}"
            problems.append(Problem(subject, "metadata.annotations", now, expected))
        if not signed:
            held, cut = clamp_to_request(held, fact.ask, self._demands, self._cards.get(fact.node, {}), subject)
            problems += cut
        unserved = as_counted(fact.unserved, held)
        if (held, signed, unserved, len(problems)) == (fact.held, fact.signed, fact.unserved, len(fact.problems)):
            return fact  # most pods: one object in memory instead of two
        return replace(fact, held=held, signed=signed, unserved=unserved, problems=tuple(problems))
