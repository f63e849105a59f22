"""The policy ``priority``: jobs and pods with a higher priority first. Source: Volcano's plugin of this name."""

from deviceshare.model import PodFact
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies.queue_policy import OrderKey, QueuePolicy


class PriorityPolicy(QueuePolicy):
    """Orders jobs by the priority of their PodGroup, and the pods of a group by their own."""

    def pod_key(self, pod: PodFact) -> OrderKey:
        """Return the priority of the pod."""
        return (-pod.priority_in_group,)

    def job_key(self, job: Job, share: float) -> OrderKey:
        """Return the priority of the job."""
        return (-job.priority,)


POLICY = PriorityPolicy
