"""The policy ``gang``: gangs start whole, and those that lack their minimum are first. Source: Volcano's plugin."""

from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies.queue_policy import OrderKey, QueuePolicy


class GangPolicy(QueuePolicy):
    """Starts gangs whole."""

    starts_whole = True

    def job_key(self, job: Job, share: float) -> OrderKey:
        """Jobs with their minimum come after jobs without it."""
        return (job.group.counts_as_ready,)


POLICY = GangPolicy
