"""The order of work: which queue, which job, which pod is next, and who has had enough. Pure; time is an argument.

What is placed where is the allocator's answer; here is only decided who asks it next. The words, and where nothing else
is said the rules, are Volcano's (pkg/scheduler/actions/{enqueue,allocate,backfill}, pkg/scheduler/plugins).

* A **job** is what is decided together: the pods of a PodGroup, or one pod without any (:mod:`.jobs`). Its place in
  its queue is a tuple of what the configured plugins say, tier by tier (priority, gang, drf, sla), then age, then name.
  It changes only when the job does, so the line is a heap for each queue, not a sort in each cycle (:mod:`.line`).
* A **queue**'s place is its priority, then its share: what it has of what it deserves (:mod:`.queue_order`), by weight
  (:mod:`.weights`) or as its object says (:mod:`.capacity`). It is computed again whenever the queue was served
  (:mod:`.queue_turns`). Cards, their memory and their cores count like CPUs, and so do pods (:mod:`.amounts`).
* **Hierarchies**: a queue is below its parent, whose account and bounds hold for it as well (:mod:`.hierarchy`,
  :mod:`.book`), or has a path in a tree of dominant shares (:mod:`.hdrf`).
* **Turns** (:mod:`.dispatcher`): the first job of the first queue is decided. A gang is placed with its minimum or
  not at all; more pods than that come one at a time, each in a turn of its own, behind the minimum of others.
* **Bounds** (:mod:`.queues`): no queue passes its capability, nor what others are guaranteed. No queue passes what it
  deserves of a resource as long as others who ask some of it wait for room within what they deserve, unless they would
  not fit on empty nodes either. Where nobody does, what is left over goes to the queue with the smallest share: a card
  that belongs to nobody in whole is not left idle. (Volcano leaves it idle.)
* **Waiting** costs nothing: pods and gangs that ask the same are one kind, and wait as one. A kind without room comes
  back when room was made, one at its queue's bound when the bound leaves room. Neither holds up those behind it.
* **enqueue** (:mod:`.enqueue`) lets PodGroups in by their minResources; **backfill** serves pods that ask nothing,
  after all others.
* **Nobody starves** (:mod:`.reservation`): for a gang that waited too long nodes are kept free, at most one gang a
  queue, and only if it fits there once they are empty.

What is exact and what is not: one pod is placed if any node takes it. A gang is placed pod by pod, without going
back: where all pods of a gang ask the same, and each pod takes the same of a node wherever it stands there, as many
as could be placed are placed, whatever the order. Where pods of one gang ask different things the gang may be refused
although another assignment exists.
"""

from deviceshare.queueing.amounts import Amounts, Counting
from deviceshare.queueing.dispatcher import Dispatcher
from deviceshare.queueing.enqueue import Applicant, EnqueueAction
from deviceshare.queueing.gangs import Decision, Group, Reason, decide
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.hierarchy import ROOT
from deviceshare.queueing.job_queue import JobClass, JobQueue
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.proportion import Claimant, deserved, share
from deviceshare.queueing.queue_account import add
from deviceshare.queueing.queues import DEFAULT_QUEUE, Queues
from deviceshare.queueing.shortage import Shortage

__all__ = [
    "DEFAULT_QUEUE",
    "ROOT",
    "Amounts",
    "Applicant",
    "Claimant",
    "Counting",
    "Decision",
    "Dispatcher",
    "EnqueueAction",
    "Group",
    "Hierarchy",
    "Job",
    "JobClass",
    "JobQueue",
    "Queues",
    "Reason",
    "Shortage",
    "add",
    "decide",
    "deserved",
    "share",
]
