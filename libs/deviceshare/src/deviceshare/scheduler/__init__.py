"""Decides which pods get which nodes and devices, and why the others wait, from the facts of a cluster.

Read :mod:`.scheduler`, which shows what a caller sees. :mod:`.cluster_state`, :mod:`.waiting_groups` and
:mod:`.records` hold what is known of the cluster, with :mod:`.claim_users`, :mod:`.going_pods`,
:mod:`.pod_classifier`, :mod:`.inherited_policies` and :mod:`.arrivals`; :mod:`.known` is what
others read of it, and :mod:`.facts` applies facts to it. :mod:`.deciding` makes one round of decisions:
:mod:`.readiness` says which groups can be decided, :mod:`.promises` takes back what queues promised in vain,
:mod:`.ownership` says which groups are decided here. :mod:`.preemption_round` chooses the groups for which others may
go, and :mod:`.preempting` finds who goes. :mod:`.trial` tries decisions. :mod:`.overcommit` finds claims without room;
:mod:`.explaining`, :mod:`.reporter` and :mod:`.holders` say
why pods wait. What is written where, and by which of several replicas, is the caller's.
"""

from deviceshare.scheduler.cluster_state import ClusterState as ClusterState
from deviceshare.scheduler.deciding import Round as Round
from deviceshare.scheduler.explaining import describe as describe
from deviceshare.scheduler.facts import Ended as Ended
from deviceshare.scheduler.going_pods import Nomination as Nomination
from deviceshare.scheduler.ownership import Ownership as Ownership
from deviceshare.scheduler.preempting import NOT_GONE as NOT_GONE
from deviceshare.scheduler.records import (
    GroupRecord as GroupRecord,
    LedgerRecord as LedgerRecord,
    PodRecord as PodRecord,
)
from deviceshare.scheduler.scheduler import (
    PROMPT_RETRIES as PROMPT_RETRIES,
    RETRY as RETRY,
    Scheduler as Scheduler,
)
from deviceshare.scheduler.trial import SchedulerTrial as SchedulerTrial
