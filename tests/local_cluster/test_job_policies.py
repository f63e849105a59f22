"""Policies of Volcano's Jobs that the local cluster does not play."""

from deviceshare_localcluster.admission import Priorities, admit
from support.job_manifests import job


def test_policies_that_are_not_played_are_named() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}]
    task = {"replicas": 1, "policies": [{"events": ["TaskCompleted", "PodFailed"], "action": "CompleteJob"}]}
    found = admit(
        job(task, policies=policies, ttlSecondsAfterFinished=5),
        uid="u",
        now="2026-01-01T00:00:00Z",
        priorities=Priorities(),
    ).warnings
    assert [warning.text for warning in found] == [
        "Job default/j: spec.ttlSecondsAfterFinished is not played by the local cluster",
        "Job default/j: spec.policies[0] is not played by the local cluster: RestartJob on PodEvicted",
        "Job default/j: spec.policies[1] is not played by the local cluster: AbortJob with exit code 3",
        "Job default/j: spec.tasks[0].policies[0] is not played by the local cluster: "
        "CompleteJob on TaskCompleted, on PodFailed",
    ]
