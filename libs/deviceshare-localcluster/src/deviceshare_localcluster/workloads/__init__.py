"""The controllers of workloads, as pure functions: from an object and what it owns to what it should own.

:func:`desired` dispatches by kind to :mod:`.apps` (Deployment, ReplicaSet, StatefulSet), :mod:`.batch` (Job, CronJob),
:mod:`.kubeflow`, :mod:`.ray` and :mod:`.sets` (LeaderWorkerSet, JobSet). Volcano's Job is in
:mod:`deviceshare_localcluster.jobs`. The operators of custom resources behave as if they ran with their option for
gang scheduling by Volcano. What only affects running containers (variables, services, certificates) is omitted.
"""

from deviceshare_localcluster.workloads.admission import (
    admit_workload as admit_workload,
    pod_template_paths as pod_template_paths,
    template_fields as template_fields,
)
from deviceshare_localcluster.workloads.apps import CONTROLLER_HASH as CONTROLLER_HASH
from deviceshare_localcluster.workloads.batch import job_from as job_from
from deviceshare_localcluster.workloads.expanding import (
    FOLLOWS_PODS as FOLLOWS_PODS,
    WORKLOADS as WORKLOADS,
    all_objects as all_objects,
    desired as desired,
)
from deviceshare_localcluster.workloads.model import Desired as Desired, Owned as Owned, PodState as PodState
