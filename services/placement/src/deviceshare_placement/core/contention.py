"""Nodes for which replicas compete: after a conflict the loser leaves the node to the winner for a moment.

The node that fits best is the same one for all replicas. The loser of a conflict would choose it again at once, as the
winner does, and lose again. A pod that fits on no other node is decided with all nodes: no pod waits for a pause.
Times are monotonic.
"""

from collections.abc import Iterable

from deviceshare.model import Backoff

PAUSE = Backoff(0.05, 0.4)
"""Seconds for which a node is left to others after a conflict; doubles with each conflict in a row."""


class Contention:
    """The nodes of the latest conflicts; bounded by the nodes."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, int]] = {}
        """When the pause of a node ends, and its conflicts in a row."""

    def conflicted(self, nodes: Iterable[str], now: float) -> None:
        """Leave nodes to others for a moment."""
        for node in nodes:
            _, conflicts = self._until.get(node, (0.0, 0))
            self._until[node] = (now + PAUSE.delay(conflicts), conflicts + 1)

    def written(self, node: str) -> None:
        """Forget the conflicts of a node that was written."""
        if self._until:
            self._until.pop(node, None)

    def paused(self, now: float) -> list[str]:
        """Return the nodes to leave to others now; those whose last pause is long over are forgotten."""
        for node in [node for node, (until, _) in self._until.items() if now > until + PAUSE.most]:
            del self._until[node]
        return [node for node, (until, _) in self._until.items() if now < until]
