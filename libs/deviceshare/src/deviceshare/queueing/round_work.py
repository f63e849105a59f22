"""How much a round does for each queue, so that the jobs of no queue delay the decisions of others.

Work is counted (:class:`~deviceshare.allocation.Effort`), not timed, so that a replay decides alike. The queues with
jobs share the work of a round equally, a queue with jobs of several actions once for each of them. A queue that has
used up its share of an action continues in the next round, in which all queues have a share again. A job is decided as
a whole, so the last one may exceed the share.

Diagnoses end with the work of a round, whatever the shares, since one of them may exceed the work of a round in large
clusters. The shares of diagnoses then last for further rounds, until all queues have had theirs.
"""

from collections.abc import Collection

from deviceshare.allocation import Effort

ALLOCATE, BACKFILL, HOLD = "allocate", "backfill", "hold"
"""The actions that serve jobs; the last one holds capacity for jobs of ``backfill`` whose gang is not ready."""
DECIDING, EXPLAINING = 2000, 500
"""Units of work for the decisions of one round, and for diagnoses of why jobs wait: these may come later."""

Sharer = tuple[str, str]
"""What has a share of a round: an action, and a queue with jobs of it."""


class RoundWork:
    """The work that is left in a round for each action of each queue; ``done`` counts what is done."""

    def __init__(self, done: Effort) -> None:
        self._done = done
        self._decided = self._explained = 0
        """How much was done before the job that is being decided."""
        self._explanations_end = 0
        self._refused_explanations = False
        """Whether the work of this round ended before a sharer had its share of the diagnoses."""
        self._share_of_decisions, self._share_of_explanations = DECIDING, EXPLAINING
        self._deciding: dict[Sharer, int] = {}
        """Units of work for each sharer in this round."""
        self._explaining: dict[Sharer, int] = {}
        """Those since the round in which the shares of diagnoses began."""
        self.unserved: set[Sharer] = set()
        """Those that continue in the next round."""

    def begin(self, sharers: Collection[Sharer]) -> None:
        """Begin a round in which these have jobs."""
        shares = max(1, len(sharers))
        self._share_of_decisions, self._share_of_explanations = DECIDING // shares, EXPLAINING // shares
        self._deciding, self.unserved = {}, set()
        if not self._refused_explanations:
            self._explaining = {}
        self._refused_explanations = False
        self._decided, self._explained = self._done.deciding, self._done.explaining
        self._explanations_end = self._explained + EXPLAINING

    def charge(self, sharer: Sharer) -> None:
        """Charge a decision, and the work since the last one, to a sharer."""
        done = self._done
        self._deciding[sharer] = self._deciding.get(sharer, 0) + 1 + done.deciding - self._decided
        self._explaining[sharer] = self._explaining.get(sharer, 0) + done.explaining - self._explained
        self._decided, self._explained = done.deciding, done.explaining

    def may_decide(self, sharer: Sharer) -> bool:
        """Return whether another job may be decided; if not, its queue continues in the next round."""
        if self.is_left(sharer):
            return True
        self.unserved.add(sharer)
        return False

    def is_left(self, sharer: Sharer) -> bool:
        """Return whether a sharer has not used up its share of the decisions."""
        return self._deciding.get(sharer, 0) <= self._share_of_decisions

    def decisions_left(self, sharer: Sharer) -> int:
        """Return how many more jobs may be decided, at most: a job that is tried takes two units."""
        return max(0, self._share_of_decisions + 2 - self._deciding.get(sharer, 0)) // 2

    def may_explain(self, sharer: Sharer) -> bool:
        """Return whether why another job waits may be diagnosed."""
        if self._explaining.get(sharer, 0) > self._share_of_explanations:
            return False
        if self._done.explaining < self._explanations_end:
            return True
        self._refused_explanations = True
        return False
