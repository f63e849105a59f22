"""Checks the pods that are bound: cards hold what is bound to them, and a bound pod keeps its node and devices."""

from collections import defaultdict
from collections.abc import Callable

from deviceshare_lab.checker.cards import Names, Parts, devices_of, names_of, over_cards
from deviceshare_lab.clusters.fields import Object, has_ended, name_of

Report = Callable[[str, str], None]
"""Hears of a broken rule, and the evidence."""


class BoundPods:
    """The pods that hold devices. ``node`` returns a node by its name, None if there is none.

    ``exempt`` are uids of pods whose devices do not count: what they were given is not the services' doing.
    """

    def __init__(self, report: Report, node: Callable[[str], Object | None], parts: Parts) -> None:
        self._report, self._node, self._parts = report, node, parts
        self.exempt: set[str] = set()
        self.bound: dict[tuple[str, str], tuple[str, Names]] = {}
        """Node and devices of each bound pod that exists, by uid and name: two pods may have one uid."""
        self.count = 0
        """How many pods were bound so far."""
        self._holding: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        """By node and uid."""

    def take(self, pod: Object) -> bool:
        """Take a pod as it is now; return whether it was bound since it was taken last."""
        node, uid, name = pod["spec"].get("nodeName", ""), pod["metadata"]["uid"], name_of(pod)
        now = node, names_of(devices_of(pod))
        known = self.bound.get((uid, name))
        if known is not None and known != now:
            self._report("a bound pod keeps its devices", f"{name} was bound as {known}, and is {now}")
        if not node:
            return False
        if has_ended(pod):
            self._holding[node].pop(uid, None)
        else:
            self._holding[node][uid] = pod
        self.bound[uid, name] = now
        self.count += known is None
        return known is None

    def drop(self, pod: Object) -> None:
        """Forget a pod that exists no more."""
        uid = pod["metadata"]["uid"]
        self._holding[pod["spec"].get("nodeName", "")].pop(uid, None)
        self.bound.pop((uid, name_of(pod)), None)
        self.exempt.discard(uid)

    def holding(self) -> list[Object]:
        """Return all pods that hold devices."""
        return [pod for pods in self._holding.values() for pod in pods.values()]

    def check_cards(self, node: str) -> None:
        """Check the cards of a node."""
        obj = self._node(node)
        if obj is not None:
            pods = [pod for uid, pod in self._holding[node].items() if uid not in self.exempt]
            for problem in over_cards(obj, pods, self._parts):
                self._report("cards hold what is bound to them", problem)
