"""The placement core: facts, ledgers and outcomes in, ledgers and explanations out. Pure.

Read :mod:`.events`, then :mod:`.placement_core`, which shows the whole flow. :mod:`deviceshare.scheduler` holds the
state and decides; :mod:`.facts` and :mod:`.ledgers` update it from the bus; :mod:`.own_work` knows which part is this
replica's; :mod:`.ledger_writes` and :mod:`.claims` write the ledgers, :mod:`.publishing` the explanations.
"""

from typing import Any

from deviceshare_placement.core.events import (
    FactReceived as FactReceived,
    LedgerReceived as LedgerReceived,
    OutcomesReceived as OutcomesReceived,
    decode_event as decode_event,
)
from deviceshare_placement.core.placement_core import PlacementCore as PlacementCore


def build_core(arguments: dict[str, Any]) -> PlacementCore:
    """Return a core.

    Args:
        arguments: those of :class:`PlacementCore`; they are part of the core log.
    """
    return PlacementCore(arguments["instance"], arguments["claim_prefix"], divided=arguments.get("divided", False))
