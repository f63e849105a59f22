"""Cluster state as arrays: rows are nodes, columns are cards.

Reading order: :mod:`.cards` (the table of cards), :mod:`.card_kinds` (what no pod changes of a card), :mod:`.holdings`
(what each pod holds), :mod:`.node_resources` (plain resources), :mod:`.pod_sums` (a pod's effective requests),
:mod:`.host_ports`, :mod:`.undo_log` (trials).
"""

from deviceshare.state.card_kinds import Bools, CardKinds, Codes, Ints
from deviceshare.state.cards import CardTable, CardView
from deviceshare.state.holdings import CardShare, Counted, Holding, Usage, shares_by_card, shares_on, total, usage_of
from deviceshare.state.host_ports import ANY_ADDRESS, HostPorts
from deviceshare.state.node_resources import PODS, ResourceTable
from deviceshare.state.pod_sums import SCORED, at_least, pod_resources, sums, unasked, with_resized
from deviceshare.state.undo_log import Trial, UndoLog

__all__ = [
    "ANY_ADDRESS",
    "PODS",
    "SCORED",
    "Bools",
    "CardKinds",
    "CardShare",
    "CardTable",
    "CardView",
    "Codes",
    "Counted",
    "Holding",
    "HostPorts",
    "Ints",
    "ResourceTable",
    "Trial",
    "UndoLog",
    "Usage",
    "at_least",
    "pod_resources",
    "shares_by_card",
    "shares_on",
    "sums",
    "total",
    "unasked",
    "usage_of",
    "with_resized",
]
