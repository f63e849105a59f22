"""Allocation of one pod: node filters, scores, the ranking cache, the allocator, and the diagnosis of a failure.

Reading order: :mod:`.allocator` (the entry point) and its :mod:`.answers`, :mod:`.node_table` (the state of the
cluster), :mod:`.pod_class` and :mod:`.pod_classes` (pods with equal requests), :mod:`.node_ranking` (feasibility and
score of every node, cached), :mod:`.inter_pod` (constraints about other pods), :mod:`.card_request` (asking the device
families), :mod:`.predicates` and :mod:`.node_filter` (which nodes a pod may use), :mod:`.node_scores`,
:mod:`.node_checks` and :mod:`.diagnosis` (why a node is not feasible), :mod:`.waiting_requests` (which waiting requests
a change of nodes may serve), :mod:`.removals` (how many pods have to go at least), :mod:`.ties`, :mod:`.claim_check`
(whether a claim could be the allocator's), :mod:`.defragmentation` (which pods to move to free capacity).
"""

from deviceshare.allocation.allocator import Allocator, Effort
from deviceshare.allocation.answers import Placement, Unplaceable
from deviceshare.allocation.card_removals import NEVER_ENOUGH
from deviceshare.allocation.claim_check import ClaimCheck
from deviceshare.allocation.defragmentation import MIN_GAIN, Movable, Move, measure, plan
from deviceshare.allocation.inter_pod import InterPod
from deviceshare.allocation.node_scores import counted
from deviceshare.allocation.pod_class import PodClass
from deviceshare.allocation.predicates import CORDONED, RefusalReason, Rule, matches, tolerates
from deviceshare.allocation.removals import Removals
from deviceshare.allocation.ties import Ties, parse_ties
from deviceshare.allocation.waiting_requests import WaitingRequests

__all__ = [
    "CORDONED",
    "MIN_GAIN",
    "NEVER_ENOUGH",
    "Allocator",
    "ClaimCheck",
    "Effort",
    "InterPod",
    "Movable",
    "Move",
    "Placement",
    "PodClass",
    "RefusalReason",
    "Removals",
    "Rule",
    "Ties",
    "Unplaceable",
    "WaitingRequests",
    "counted",
    "matches",
    "measure",
    "parse_ties",
    "plan",
    "tolerates",
]
