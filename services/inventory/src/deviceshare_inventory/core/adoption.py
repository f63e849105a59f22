"""What counts of the devices that bound pods name: what we signed, else what they named first and ask.

Pure. Annotations of a pod can be written by its owner, before and after it is bound. So what a pod named when it was
first seen bound with devices is what it has for as long as it lives (device plugins only add what they made of it), and
of that as much as it asks (:mod:`deviceshare.families.trust`). What it asks depends on the configuration, and its share
of a card on the card.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.families import clamp_to_request
from deviceshare.model import Card, ContainerGrant, PodFact, Problem, with_made
from deviceshare.objects import as_counted
from msgspec.structs import replace


class Adoption:
    """The bound pods that name devices, and what their share depends on."""

    def __init__(self) -> None:
        self._conf = default_conf()
        self._cards: dict[str, dict[str, Card]] = {}
        self._first: dict[str, tuple[tuple[ContainerGrant, ...], bool]] = {}
        """By uid: what a pod named first, and whether that was signed."""
        self._unsigned: dict[str, PodFact] = {}
        """Pods as they were read last of which not all need count."""
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """Their uids, by node."""

    def __contains__(self, uid: str) -> bool:
        """Return whether what a pod holds depends on the configuration and on its node."""
        return uid in self._unsigned

    def pod(self, fact: PodFact) -> PodFact:
        """Return a pod as it was read now, with what it holds."""
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
        """Hear that a pod holds nothing any more."""
        self._first.pop(uid, None)
        self._drop(uid)

    def begin_list(self) -> None:
        """Forget all but what was named first: everything will be seen again."""
        self._cards.clear()
        self._unsigned.clear()
        self._on.clear()

    def node(self, name: str, cards: Iterable[Card]) -> Iterator[PodFact]:
        """Learn a node's cards; yields its pods anew where that changes anything for them."""
        known = {card.id: card for card in cards}
        before = self._cards.get(name, {})
        self._cards[name] = known
        if {card.id: card.memory for card in before.values()} != {card.id: card.memory for card in known.values()}:
            yield from (self._counted(self._unsigned[uid]) for uid in sorted(self._on.get(name, ())))

    def configure(self, conf: SchedulerConf) -> bool:
        """Learn the configuration; returns whether :meth:`pods` may hold something else by it."""
        changed = (conf.devices, conf.configurations) != (self._conf.devices, self._conf.configurations)
        self._conf = conf
        return changed

    def pods(self) -> Iterator[PodFact]:
        """Yield the pods that depend on the configuration and on their node, with what they hold."""
        return (self._counted(fact) for fact in list(self._unsigned.values()))

    def _drop(self, uid: str) -> None:
        fact = self._unsigned.pop(uid, None)
        if fact is not None:
            self._on[fact.node].discard(uid)

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
            held, cut = clamp_to_request(held, fact.ask, self._conf, self._cards.get(fact.node, {}), subject)
            problems += cut
        unserved = as_counted(fact.unserved, held)
        return replace(fact, held=held, signed=signed, unserved=unserved, problems=tuple(problems))
