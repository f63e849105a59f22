"""The policy ``sla``: jobs may wait so long, then they are admitted. Source: Volcano's plugin of this name."""

from math import inf

from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies.queue_policy import Application, OrderKey, QueuePolicy


class SlaPolicy(QueuePolicy):
    """Orders jobs by the end of the time that they may wait; what waited so long is admitted."""

    def job_key(self, job: Job, share: float) -> OrderKey:
        """Return the end of the waiting time."""
        end = self.admits_at(job)
        return (inf if end is None else end,)

    def admit(self, application: Application) -> bool:
        """Admit a job that has waited too long."""
        end = self.admits_at(application.job)
        return end is not None and application.now >= end

    def admits_at(self, job: Job) -> float | None:
        """Return the end of the waiting time."""
        waiting = job.may_wait(self.conf.waiting_time)
        return None if waiting is None else job.created + waiting


POLICY = SlaPolicy
