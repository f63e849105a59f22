"""The policy ``overcommit``: queues promise together at most a multiple of the cluster.

Source: Volcano pkg/scheduler/plugins/overcommit (JobEnqueueable).
"""

from deviceshare.queueing.policies.queue_policy import Application, QueuePolicy
from deviceshare.queueing.shortage import OVERCOMMIT, Shortage
from deviceshare.state import PODS


class OvercommitPolicy(QueuePolicy):
    """Admits groups up to ``overcommit-factor`` times the cluster."""

    def admit(self, application: Application) -> Shortage | bool:
        """Return the resource of which queues would have promised too much, or True."""
        committed = application.committed()
        for name, amount in application.needs.items():
            if amount and name != PODS and (total := application.limits.of_cluster(name)) is not None:
                limit, used = total * self.conf.overcommit, committed.get(name, 0)
                if used + amount > limit:
                    queue = application.job.queue
                    return Shortage(queue, OVERCOMMIT, name, int(limit), used, amount, promised=True)
        return True


POLICY = OvercommitPolicy
