"""The result of one scheduling round."""

from collections.abc import Hashable

import msgspec

from deviceshare.model import GroupKey, PodUid
from deviceshare.queueing.gangs import Decision
from deviceshare.queueing.job_class import JobClass


class RoundResult(msgspec.Struct):
    """The groups with placed pods, and the job classes that wait, each with the decision about its first job."""

    placed: dict[GroupKey, Decision] = {}
    waiting: dict[Hashable, tuple[JobClass, Decision]] = {}
    order: list[PodUid] = []
    """The placed pods in the order of their placement."""

    def add(self, key: GroupKey, decision: Decision) -> None:
        """Add a decision that places pods; merges it with an earlier decision of this round about the same group."""
        self.order += [pod.uid for pod, _ in decision.placed]
        before = self.placed.get(key)
        if before is not None:
            placed, fitted = (*before.placed, *decision.placed), before.fitted + decision.fitted
            decision = Decision(group=before.group, placed=placed, waiting=(), fitted=fitted)
        self.placed[key] = decision
