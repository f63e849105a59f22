"""The nodes that pods may use, cached by rule."""

from collections.abc import Sequence

import numpy as np

from deviceshare.allocation.predicates import Rule, admits
from deviceshare.kernels import Changes
from deviceshare.model import NodeFact
from deviceshare.state import Bools


class NodeFilter:
    """The nodes that a rule admits: ``admitted`` bool[rows], as of change number ``seen`` of the facts."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.admitted: Bools = np.zeros(0, dtype=np.bool_)
        self.seen = -1

    def refresh(self, facts: Changes, nodes: Sequence[NodeFact | None]) -> None:
        """Re-evaluate the nodes whose fact changed; ``nodes`` are those of all rows."""
        if self.seen == facts.now:
            return
        if len(self.admitted) < facts.rows:
            self.admitted = np.pad(self.admitted, (0, facts.rows - len(self.admitted)))
        for row in np.array(facts.found[: facts.since(self.seen)]).tolist():
            node = nodes[row]
            self.admitted[row] = node is not None and admits(self.rule, node)
        self.seen = facts.now
