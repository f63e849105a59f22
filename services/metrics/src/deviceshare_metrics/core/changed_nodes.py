"""Which nodes changed since when, and the part of the state that belongs to some nodes."""

from collections import OrderedDict
from collections.abc import Iterable

from deviceshare.model import Gone, NodeFact, NodeLedger
from msgspec.structs import replace

from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.parts import part_of, some
from deviceshare_metrics.core.state_store import StateStore


class ChangedNodes:
    """The nodes in the order of their last changes, so that a reader that knows a position reads what follows.

    Each node is listed once: the size is that of the cluster, however many changes a reader has missed. Nodes that are
    gone stay listed, up to ``most_gone``; a reader that is older than the oldest forgotten one reads everything again.

    ``position`` counts the changes.
    """

    def __init__(self, most_gone: int = 10_000) -> None:
        self.position = 0
        self._most_gone = most_gone
        self._last: dict[str, int] = {}
        """The position of the last change of each node, in the order of positions."""
        self._gone: dict[str, None] = OrderedDict()
        self._oldest = 0
        """Readers before this position have missed a node that is gone."""
        self._bound: dict[str, dict[str, PodSeen]] = {}
        """The pods of each node by subject, without those that have ended."""

    def touch(self, name: str) -> None:
        """Record a change of a node that is in the cluster, or was."""
        if name in self._last:
            self.position += 1
            del self._last[name]
            self._last[name] = self.position

    def touch_all(self) -> None:
        """Record a change of every node: of the configuration."""
        for name in list(self._last):
            self.touch(name)

    def node(self, name: str, *, gone: bool) -> None:
        """Record a new fact of a node, or that it is gone."""
        self._last.setdefault(name, 0)
        self.touch(name)
        self._gone.pop(name, None)
        if gone:
            self._gone[name] = None
            if len(self._gone) > self._most_gone:
                forgotten = next(iter(self._gone))
                del self._gone[forgotten]
                self._oldest = max(self._oldest, self._last.pop(forgotten, 0))

    def pod(self, subject: str, before: PodSeen | None, after: PodSeen | None) -> None:
        """Record a new fact of a pod, or that it is gone (None)."""
        if before is not None and before.node:
            on_node = self._bound.get(before.node, {})
            on_node.pop(subject, None)
            if not on_node:
                self._bound.pop(before.node, None)
            self.touch(before.node)
        if after is not None and after.node:
            if not after.ended:
                self._bound.setdefault(after.node, {})[subject] = after
            self.touch(after.node)

    def fact(self, subject: str, store: StateStore, changed: object) -> None:
        """Record a fact that is about to be stored."""
        if isinstance(changed, NodeFact):
            self.node(changed.name, gone=False)
        elif isinstance(changed, PodSeen):
            self.pod(subject, store.pods.get(subject), changed)
        elif isinstance(changed, Gone):
            if (node := store.nodes.get(subject)) is not None:
                self.node(node.name, gone=True)
            if (pod := store.pods.get(subject)) is not None:
                self.pod(subject, pod, None)

    def ledger(self, changed: NodeLedger) -> None:
        """Record the claims on a node."""
        self.touch(changed.node)

    def since(self, position: int) -> list[str] | None:
        """Return the names of the nodes that changed after a position; None if that is not known any more."""
        if position < self._oldest or position > self.position:
            return None
        names = []
        for name in reversed(self._last):
            if self._last[name] <= position:
                break
            names.append(name)
        return names

    def part_of_pod(self, store: StateStore, namespace: str, name: str) -> StateStore:
        """Return an unchanging store with the pods of a name and their nodes only."""
        of_name = {
            subject: pod for subject, pod in store.pods.items() if pod.name == name and pod.namespace == namespace
        }
        uids = {pod.uid for pod in of_name.values()}
        nodes = {pod.node for pod in of_name.values() if pod.node}
        if uids:
            nodes |= {each.node for each in store.ledgers.values() if any(claim.uid in uids for claim in each.claims)}
        part = self.part(store, nodes, of_name)
        others = {
            subject: pod for subject, pod in store.others.items() if pod.name == name and pod.namespace == namespace
        }
        return replace(part, others=others)

    def part(self, store: StateStore, names: Iterable[str], more: Iterable[str] = ()) -> StateStore:
        """Return an unchanging store with these nodes, their claims, outcomes and pods only, and ``more`` pods."""
        names = list(names)
        bound = {subject: pod for name in names for subject, pod in self._bound.get(name, {}).items()}
        return part_of(store, names, bound | some(store.pods, more))
