"""Nodes for which replicas compete: each leaves to another one what that one uses at the moment.

The node that fits best is the same one for all replicas. The loser of a conflict would choose it again at once, as the
winner does, and lose again. So a replica leaves a node alone for a moment after a conflict, and after another replica
has written its ledger. Each partition of the nodes has an order of replicas, in which they come back to a node one
after the other. A pod that fits on no other node is decided with all nodes: no pod waits for a pause. Scores stay as
they are. Times are monotonic.
"""

from collections.abc import Callable, Iterable

from deviceshare.model import Backoff

PAUSE = Backoff(0.1, 1.0)
"""Seconds for which a node is left to others after a conflict; doubles with each conflict in a row. The second replica
in the order of the node leaves it for twice as long, and so on."""
USED = 0.5
"""Seconds for which a node is left to the replica that has written its ledger; likewise."""
MAX_LEVELS = 4
"""Places in the order of replicas that are distinguished."""
MAX_NODES = 64
"""Nodes that are left to others at the same time: with more there is room elsewhere."""


class Contention:
    """The nodes that are left to others. ``level`` returns the place of this replica in the order of a node, from 0."""

    def __init__(self, level: Callable[[str], int]) -> None:
        self._level = level
        self._until: dict[str, tuple[float, int]] = {}
        """When the pause of a node ends, and its conflicts in a row; the latest last."""

    def conflicted(self, nodes: Iterable[str], now: float) -> None:
        """Leave nodes to others after a conflict."""
        for node in nodes:
            _, conflicts = self._until.get(node, (0.0, 0))
            self._set(node, now + PAUSE.delay(conflicts) * self._factor(node), conflicts + 1)

    def used(self, node: str, now: float) -> None:
        """Leave a node to the replica that has written its ledger."""
        until, conflicts = self._until.get(node, (0.0, 0))
        self._set(node, max(until, now + USED * self._factor(node)), conflicts)

    def _factor(self, node: str) -> int:
        return 1 + min(self._level(node), MAX_LEVELS - 1)

    def _set(self, node: str, until: float, conflicts: int) -> None:
        self._until.pop(node, None)
        self._until[node] = (until, conflicts)
        if len(self._until) > MAX_NODES:
            del self._until[next(iter(self._until))]

    def written(self, node: str) -> None:
        """Forget the conflicts of a node whose ledger was written by this replica."""
        if self._until:
            self._until.pop(node, None)

    def paused(self, now: float) -> list[str]:
        """Return the nodes to leave to others now; those whose last pause is long over are forgotten."""
        for node in [node for node, (until, _) in self._until.items() if now > until + PAUSE.most]:
            del self._until[node]
        return [node for node, (until, _) in self._until.items() if now < until]
