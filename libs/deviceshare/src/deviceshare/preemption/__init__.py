"""Preemption and reclaim: which pods have to go so that a waiting group fits. Pure; time is an argument.

Read :mod:`.preempting`, which shows what a caller sees. :mod:`.candidates` are the pods that are looked at, and
:mod:`.candidate_table` keeps them; :mod:`.candidate_nodes` are their nodes, those first where few pods may be enough.
:mod:`.rules` says who may go at all, :mod:`.deciding_tiers` by which plugins, :mod:`.gangs`, :mod:`.budgets` and
:mod:`.shares` who may go together, and :mod:`.victims` puts this together. :mod:`.search` finds the fewest victims
among the :mod:`.subsets` of the pods that may go, and on several nodes among :mod:`.options`; it asks :mod:`.room` what
fits without them: the allocator itself, so that all families and constraints count. A group for which no pods are
enough may take the room of :mod:`.nominated_groups`; of the pods that go already it waits for :mod:`.fewest_going`.
:mod:`.reasons` says why none goes.

Differences from Volcano: all listed plugins have to agree; the fewest pods go, over all nodes and cards; the whole
placement is decided before anybody goes; gangs keep their minimum or go whole; a queue loses pods only while it has
more than it deserves of something that they have, and takes only what it deserves.
"""

from deviceshare.preemption.budgets import Budgets as Budgets
from deviceshare.preemption.candidate_table import CandidateTable as CandidateTable
from deviceshare.preemption.candidates import (
    PREEMPT as PREEMPT,
    RECLAIM as RECLAIM,
    EvictionCandidate as EvictionCandidate,
    Preemptor as Preemptor,
)
from deviceshare.preemption.gangs import Gang as Gang
from deviceshare.preemption.nominated_groups import (
    NominatedGroup as NominatedGroup,
    lower_nominations as lower_nominations,
)
from deviceshare.preemption.preempting import (
    NO_POD as NO_POD,
    Preemption as Preemption,
    PreemptionInput as PreemptionInput,
    may_find as may_find,
    preempt as preempt,
)
from deviceshare.preemption.rules import rules_of as rules_of
