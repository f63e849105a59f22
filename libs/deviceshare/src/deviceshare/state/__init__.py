"""Cluster state as arrays: rows are nodes, columns are cards.

Reading order: :mod:`.cards` (the table of cards), :mod:`.card_kinds` (what no pod changes of a card), :mod:`.holdings`
(what each pod holds), :mod:`.node_resources` (plain resources), :mod:`.pod_sums` (a pod's effective requests),
:mod:`.host_ports`, :mod:`.undo_log` (trials).
"""

from deviceshare.state.card_kinds import Bools as Bools, CardKinds as CardKinds, Codes as Codes, Ints as Ints
from deviceshare.state.cards import CardTable as CardTable, CardView as CardView
from deviceshare.state.holdings import (
    CardShare as CardShare,
    Counted as Counted,
    Holding as Holding,
    Usage as Usage,
    shares_by_card as shares_by_card,
    shares_on as shares_on,
    total as total,
    usage_of as usage_of,
)
from deviceshare.state.host_ports import ANY_ADDRESS as ANY_ADDRESS, HostPorts as HostPorts
from deviceshare.state.node_resources import PODS as PODS, ResourceTable as ResourceTable
from deviceshare.state.pod_sums import (
    SCORED as SCORED,
    at_least as at_least,
    pod_resources as pod_resources,
    sums as sums,
    unasked as unasked,
    with_resized as with_resized,
)
from deviceshare.state.undo_log import Trial as Trial, UndoLog as UndoLog
