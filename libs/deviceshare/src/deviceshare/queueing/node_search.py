"""The search for the nodes that a job would fit on if they were empty, in steps of bounded work."""

from collections.abc import Sequence

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.model import NodeFact
from deviceshare.queueing.gangs import decide
from deviceshare.queueing.jobs import Job

_FIRST_TRIAL = 8
"""Nodes of the first trial; every further trial has twice as many."""


class NodeSearch:
    """One search. It works on the nodes as they were when it began.

    Args:
        job: the job to find nodes for.
        nodes: the nodes that may be chosen, the preferred ones first.
        conf: the configuration to decide by.
        version: the version of the nodes, for the caller.
    """

    def __init__(self, job: Job, nodes: Sequence[NodeFact], conf: SchedulerConf, version: int) -> None:
        self.job = job
        self.version = version
        self.found: tuple[str, ...] = ()
        """The names of the nodes that serve the job, sorted; none if the search failed."""
        # Of pods with ResourceClaims no nodes are found: their devices are not known here.
        self.done = not nodes or any(pod.ask.devices for pod in job.group.pods)
        self._nodes = nodes
        self._empty = Allocator(conf)
        self._added = 0
        self._trial_at = min(_FIRST_TRIAL, len(nodes))

    def run(self, most: int) -> int:
        """Continue until the search is done or ``most`` units of work are used; return how many were used.

        A unit is a node that is added, or a pod of the job in a trial. A trial is not divided: only the last one may
        exceed ``most``.
        """
        used = 0
        while not self.done and used < most:
            until = min(self._trial_at, self._added + most - used)
            for node in self._nodes[self._added : until]:
                self._empty.set_node(node)
            used += until - self._added
            self._added = until
            if until == self._trial_at and used < most:
                used += len(self.job.group.pods)
                self._try()
        return used

    def _try(self) -> None:
        decision = decide(self._empty, self.job.group, reasons=False)
        self.found = tuple(sorted({placement.node for _, placement in (*decision.placed, *decision.reserved)}))
        self.done = bool(decision.placed) or self._added == len(self._nodes)
        self._trial_at = min(2 * self._trial_at, len(self._nodes))
