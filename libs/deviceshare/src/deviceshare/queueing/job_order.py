"""The order of jobs within a queue: the configured policies in tier order, then age, then name.

Source: Volcano pkg/scheduler/framework (JobOrderFn).
"""

from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies import OrderKey, QueuePolicies


class JobOrder:
    """The order of jobs under one configuration."""

    def __init__(self, policies: QueuePolicies) -> None:
        self._policies = policies.having("JobOrder")

    def key(self, job: Job, share: float) -> OrderKey:
        """Return a job's sort key; ``share`` is its dominant share."""
        parts = [part for policy in self._policies for part in policy.job_key(job, share)]
        return (*parts, job.created, job.key)
