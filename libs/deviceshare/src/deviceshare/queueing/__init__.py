"""Queueing: which queue, job and pod is decided next, and what queues are allowed to use. Pure; time is an argument.

The allocator chooses nodes and devices; this package decides in which order it is asked. Terms and, unless stated
otherwise, rules are Volcano's (pkg/scheduler/actions/{enqueue,allocate,backfill}, pkg/scheduler/plugins).

* A **job** is the unit of decision: the waiting pods of a PodGroup, or one pod without a PodGroup (:mod:`.jobs`). Its
  sort key consists of the values of the configured policies in tier order, then age, then name (:mod:`.job_order`).
  It changes only with the job, so each queue has a heap of jobs instead of a sort in each round (:mod:`.job_queue`).
* A **queue**'s sort key is its priority, then its share: allocated / deserved. Deserved amounts follow from
  weights or from the Queue object (:mod:`.policies`). The key is recomputed whenever the
  queue is served (:mod:`.queue_heap`). Cards, their memory and cores count like CPUs, and so do pods
  (:mod:`.amounts`).
* **Hierarchies**: a queue has a parent, whose account and bounds include it (:mod:`.hierarchy`,
  :mod:`.queue_account`), or a path in a tree of dominant shares (:mod:`.hdrf`).
* **Rounds** (:mod:`.dispatcher`): decide the first job of the first queue, repeatedly. A gang is placed with its
  minimum or not at all; its further pods are placed one by one, after the minimum of other jobs.
* **Limits** (:mod:`.queue_limits`): no queue exceeds its capability or the guarantees of other queues. A queue may
  exceed its deserved amount of a resource (borrow) only while no other queue that requests the resource waits for
  capacity within its own deserved amount; pods that would not fit on empty nodes do not count as waiting. Among
  borrowers the queue with the smallest share is first. Volcano leaves such capacity idle.
* **Waiting** is free of cost: jobs with the same feasibility form one job class, which is parked and woken as a whole:
  when a node that changed may serve it, or when a limit of its queue allows it again (:mod:`.parked`). Parked classes
  do not block later ones. The work of a round is bounded for each queue (:mod:`.round_work`).
* **enqueue** (:mod:`.enqueue`) admits PodGroups by ``minResources``, which their queue then promises them unless they
  cannot start on any nodes (:mod:`.empty_cluster`); **backfill** places best-effort pods after all
  others.
* **Starvation** (:mod:`.reservation`): nodes are reserved for a gang that waited too long, for at most one gang per
  queue, and only if the gang fits on these nodes once they are empty.

Completeness: a single pod is placed if any node fits. A gang is placed pod by pod without backtracking. If all its pods
have equal requests and take the same resources on every node, the number of placed pods is maximal. A gang of pods
with different requests may be rejected although an assignment exists.
"""

from deviceshare.queueing.amounts import Counting as Counting
from deviceshare.queueing.dispatcher import Dispatcher as Dispatcher
from deviceshare.queueing.empty_cluster import EmptyCluster as EmptyCluster
from deviceshare.queueing.enqueue import Applicant as Applicant, EnqueueAction as EnqueueAction
from deviceshare.queueing.gangs import Decision as Decision, Reason as Reason, decide as decide
from deviceshare.queueing.group import Group as Group
from deviceshare.queueing.hierarchy import ROOT as ROOT
from deviceshare.queueing.job_class import (
    ROOM as ROOM,
    ROOM_FOR_DEVICES as ROOM_FOR_DEVICES,
    ROOM_FOR_VOLUMES as ROOM_FOR_VOLUMES,
    ROOM_NEAR_PODS as ROOM_NEAR_PODS,
    JobClass as JobClass,
)
from deviceshare.queueing.jobs import Job as Job
from deviceshare.queueing.policies import OrderKey as OrderKey, QueuePolicy as QueuePolicy
from deviceshare.queueing.queue_account import QueueAccount as QueueAccount, add as add
from deviceshare.queueing.queues import Queues as Queues
from deviceshare.queueing.shortage import DESERVED as DESERVED, LIMIT_OF_CODE as LIMIT_OF_CODE, Shortage as Shortage
