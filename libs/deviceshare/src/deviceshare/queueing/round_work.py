"""How much a round does for each queue, so that the jobs of no queue delay the decisions of others.

Work is counted (:class:`~deviceshare.allocation.Effort`), not timed, so that a replay decides alike. The queues with
jobs share the work of a round equally. A queue that has used up its share continues in the next round, in which all
queues have a share again. A job is decided as a whole, so the last one may exceed the share.
"""

from collections.abc import Collection

from deviceshare.allocation import Effort

DECIDING, EXPLAINING = 1000, 1000
"""Units of work for the decisions of one round, and for diagnoses of why jobs wait."""


class RoundWork:
    """The work that is left for each queue in a round; ``done`` counts what is done."""

    def __init__(self, done: Effort) -> None:
        self._done = done
        self._decided = self._explained = 0
        """How much was done before the job that is being decided."""
        self._explanations_end = 0
        self._share_of_decisions, self._share_of_explanations = DECIDING, EXPLAINING
        self._deciding: dict[str, int] = {}
        self._explaining: dict[str, int] = {}
        """Units of work for each queue in this round."""
        self.unserved: set[str] = set()
        """The queues that continue in the next round."""

    def begin(self, queues: Collection[str]) -> None:
        """Begin a round in which these queues have jobs."""
        shares = max(1, len(queues))
        self._share_of_decisions, self._share_of_explanations = DECIDING // shares, EXPLAINING // shares
        self._deciding, self._explaining, self.unserved = {}, {}, set()
        self._decided, self._explained = self._done.deciding, self._done.explaining
        self._explanations_end = self._explained + EXPLAINING

    def charge(self, queue: str) -> None:
        """Charge a decision, and the work since the last one, to a queue."""
        done = self._done
        self._deciding[queue] = self._deciding.get(queue, 0) + 1 + done.deciding - self._decided
        self._explaining[queue] = self._explaining.get(queue, 0) + done.explaining - self._explained
        self._decided, self._explained = done.deciding, done.explaining

    def may_decide(self, queue: str) -> bool:
        """Return whether another job of a queue may be decided; if not, the queue continues in the next round."""
        if self._deciding.get(queue, 0) <= self._share_of_decisions:
            return True
        self.unserved.add(queue)
        return False

    def decisions_left(self, queue: str) -> int:
        """Return how many more jobs of a queue may be decided, at most: a job that is tried takes two units."""
        return max(0, self._share_of_decisions + 2 - self._deciding.get(queue, 0)) // 2

    def may_explain(self, queue: str) -> bool:
        """Return whether why another job of a queue waits may be diagnosed."""
        if self._done.explaining >= self._explanations_end:
            return False
        return self._explaining.get(queue, 0) <= self._share_of_explanations
