"""Allocation of one pod: node filters, scores, the ranking cache, the allocator, and the diagnosis of a failure.

Reading order: :mod:`.allocator` (the entry point) and its :mod:`.answers`, :mod:`.node_table` (the state of the
cluster), :mod:`.pod_class` and :mod:`.pod_classes` (pods with equal requests), :mod:`.node_ranking` (feasibility and
score of every node, cached), :mod:`.inter_pod` (constraints about other pods), :mod:`.card_request` (asking the device
families), :mod:`.predicates` and :mod:`.node_filter` (which nodes a pod may use), :mod:`.node_scores`,
:mod:`.node_checks` and :mod:`.diagnosis` (why a node is not feasible), :mod:`.waiting_requests` (which waiting requests
a change of nodes may serve), :mod:`.removals` (how many pods have to go at least), :mod:`.ties`, :mod:`.claim_check`
(whether a claim could be the allocator's), :mod:`.defragmentation` (which pods to move to free capacity).
"""

from deviceshare.allocation.allocator import Allocator as Allocator, Effort as Effort
from deviceshare.allocation.answers import Placement as Placement, Unplaceable as Unplaceable
from deviceshare.allocation.card_removals import NEVER_ENOUGH as NEVER_ENOUGH
from deviceshare.allocation.claim_check import ClaimCheck as ClaimCheck
from deviceshare.allocation.defragmentation import (
    MIN_GAIN as MIN_GAIN,
    Movable as Movable,
    Move as Move,
    measure as measure,
    plan as plan,
)
from deviceshare.allocation.first_failing import is_lasting as is_lasting
from deviceshare.allocation.first_failing import lasts as lasts
from deviceshare.allocation.inter_pod import InterPod as InterPod
from deviceshare.allocation.node_scores import counted as counted
from deviceshare.allocation.pod_class import PodClass as PodClass
from deviceshare.allocation.predicates import (
    CORDONED as CORDONED,
    RefusalReason as RefusalReason,
    Rule as Rule,
    matches as matches,
    tolerates as tolerates,
)
from deviceshare.allocation.ties import Ties as Ties, parse_ties as parse_ties
from deviceshare.allocation.waiting_requests import WaitingRequests as WaitingRequests
